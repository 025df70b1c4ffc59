"""The program that a worker runs in, as its child processes need to know it."""

from __future__ import annotations

import importlib
import runpy
import sys
from types import ModuleType
from typing import Any

import msgspec

from inturn.queue.app import App
from inturn.queue.job import Job
from inturn.queue.places import MAIN, main_of, unfindable

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
