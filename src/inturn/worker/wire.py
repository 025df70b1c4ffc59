"""What a worker and its child processes say to each other, and how it is written down."""

from __future__ import annotations

from typing import Literal

import msgspec

from inturn.model.job import LeasedJob
from inturn.policy.verdict import Verdict
from inturn.worker.program import Program

LENGTH_BYTES = 4  # before each word, its length


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """To a child, first: the program, and the jobs it will be asked for, kind by module.

    Their app is on this store, whatever the module that the child imports says.
    """

    program: Program
    modules: dict[str, str]
    store: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From a child: it takes jobs now; of ``missing`` kinds it says why it does not."""

    missing: dict[str, str]


class Begin(msgspec.Struct, frozen=True, tag=True):
    """To a child: make this attempt, unless it is later than ``kept_until``, by ``lease_now``.

    A machine may stand still between the worker's look at the lease and the handler's first line.
    """

    token: int
    job: LeasedJob
    kept_until: float


class Ask(msgspec.Struct, frozen=True, tag=True):
    """From a handler in a child: prolong the lease, or let it be known how far it is."""

    number: int
    verb: Literal["heartbeat", "progress"]
    fraction: float = 0.0
    note: str = ""


class Answer(msgspec.Struct, frozen=True, tag=True):
    """To a handler in a child: what came of what it asked."""

    number: int
    is_lost: bool = False  # the lease
    error: str | None = None


class Ended(msgspec.Struct, frozen=True, tag=True):
    """From a child: the attempt ended, or was not begun: then it releases the job."""

    verdict: Verdict


Word = Welcome | Ready | Begin | Ask | Answer | Ended

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)


def written(word: Word) -> bytes:
    """Return a word as it goes over the wire."""
    body = _encoder.encode(word)
    return len(body).to_bytes(LENGTH_BYTES) + body


def read(body: bytes) -> Word:
    """Return the word that a body holds."""
    return _decoder.decode(body)
