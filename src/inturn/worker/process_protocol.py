"""What a worker and the child processes of its ``process=True`` jobs say to each other."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Literal

import msgspec

from inturn.model.errors import BadInput
from inturn.model.job import LeasedJob
from inturn.policy.verdict import Verdict
from inturn.queue.app import App
from inturn.queue.job import Job, unfindable

LENGTH_BYTES = 4  # before each frame, its length


class Setup(msgspec.Struct, frozen=True, tag=True):
    """To a child, first: the modules of the jobs it will be asked for, by kind.

    Their app uses this store, whatever the module that the child imports says. ``main``: what
    ``multiprocessing`` tells a child that it spawns about the program's main module.
    """

    main: dict[str, Any]
    modules: dict[str, str]
    store: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From a child: it takes jobs now; or why it could not find some."""

    missing: list[str]


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


def about_main() -> dict[str, Any]:
    """Return what another process needs to import this program's main module as this one did."""
    from multiprocessing import spawn

    told = spawn.get_preparation_data("inturn")
    wanted = ("sys_argv", "init_main_from_name", "init_main_from_path")
    return {name: told[name] for name in wanted if name in told}


def find_job(module: ModuleType, kind: str) -> Job[Any, Any] | None:
    """Return the job of a kind that stands in a module, by itself or on an app that does."""
    for value in vars(module).values():
        job = value.jobs.get(kind) if isinstance(value, App) else value
        if isinstance(job, Job) and job.kind == kind and job.in_process:
            return job
    return None


def check_found(job: Job[Any, Any]) -> None:
    """Refuse, when a worker starts, a job that does not stand where it was declared."""
    if job.module == "__mp_main__":
        raise BadInput("it starts a worker, which only the program itself is to do")
    module = sys.modules.get(job.module)
    found = None if module is None else find_job(module, job.kind)
    if found is None or found.app is not job.app:
        raise unfindable(job.kind, f"neither it nor its app stands in module {job.module!r}")
