"""What a worker and the child processes of its ``process=True`` jobs say to each other."""

from __future__ import annotations

from typing import Literal

import msgspec

from inturn.model.job import LeasedJob
from inturn.policy.verdict import Verdict
from inturn.worker.program import Program

LENGTH_BYTES = 4  # before each frame, its length


class Setup(msgspec.Struct, frozen=True, tag=True):
    """To a child, first: the program, and the modules of the jobs it will be asked for, by kind.

    Their app uses this store, whatever the module that the child imports says.
    """

    program: Program
    modules: dict[str, str]
    store: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From a child: it takes jobs now, except of these kinds, each with the reason."""

    missing: dict[str, str]


class Begin(msgspec.Struct, frozen=True, tag=True):
    """To a child: make this attempt."""

    token: int
    job: LeasedJob


class Ask(msgspec.Struct, frozen=True, tag=True):
    """From a handler in a child: prolong the lease, or store how far it is."""

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
    """From a child: the attempt has ended."""

    verdict: Verdict


Frame = Setup | Ready | Begin | Ask | Answer | Ended

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """Return a frame with its length before it."""
    body = _encoder.encode(frame)
    return len(body).to_bytes(LENGTH_BYTES) + body


def decode(body: bytes) -> Frame:
    """Return the frame that a body holds."""
    return _decoder.decode(body)
