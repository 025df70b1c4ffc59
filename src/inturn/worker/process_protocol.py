"""What a worker and the child processes of its ``process=True`` jobs say to each other."""

from __future__ import annotations

import importlib
import runpy
import sys
from types import ModuleType
from typing import Any, Literal

import msgspec

from inturn.model.job import LeasedJob
from inturn.policy.verdict import Verdict
from inturn.queue.app import App
from inturn.queue.job import Job
from inturn.queue.places import MAIN, main_of, unfindable

LENGTH_BYTES = 4  # before each frame, its length
MAIN_IN_CHILD = "__mp_main__"  # as multiprocessing calls it: `if __name__ == "__main__"` is skipped


class Program(msgspec.Struct, frozen=True):
    """What another process needs to import this program's modules as this one did."""

    arguments: list[str]
    main_name: str | None  # of `python -m name`
    main_file: str | None  # of `python file`

    @classmethod
    def here(cls) -> Program:
        """Return the program that runs here."""
        return cls(list(sys.argv), *main_of())

    def load(self, module: str) -> ModuleType:
        """Import a module of the program; the main one, under another name."""
        if module != MAIN:
            return importlib.import_module(module)
        if MAIN_IN_CHILD not in sys.modules:
            main = ModuleType(MAIN_IN_CHILD)
            if self.main_name is not None:
                found = runpy.run_module(self.main_name, run_name=MAIN_IN_CHILD, alter_sys=True)
            else:
                assert self.main_file is not None, "else it was refused when it was declared"
                found = runpy.run_path(self.main_file, run_name=MAIN_IN_CHILD)
            main.__dict__.update(found)
            sys.modules[MAIN] = sys.modules[MAIN_IN_CHILD] = main
        return sys.modules[MAIN_IN_CHILD]


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


def find_job(module: ModuleType, kind: str) -> Job[Any, Any] | None:
    """Return the job of a kind that stands in a module, by itself or on an app that does."""
    for value in vars(module).values():
        job = value.jobs.get(kind) if isinstance(value, App) else value
        if isinstance(job, Job) and job.kind == kind and job.in_process:
            return job
    return None


def check_found(job: Job[Any, Any]) -> None:
    """Refuse, when a worker starts, a job that does not stand where it was declared."""
    module = sys.modules.get(job.module)
    found = None if module is None else find_job(module, job.kind)
    if found is None or found.app is not job.app:
        raise unfindable(job.kind, f"neither it nor its app stands in module {job.module!r}")
