"""Where a job is declared: whether another process could find it there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from inturn.model.errors import BadInput

if TYPE_CHECKING:
    from inturn.queue.job import Job

MAIN = "__main__"


def check_findable(job: Job[Any, Any]) -> None:
    """Refuse, when it is declared, a job that no other process could find."""
    if "<locals>" in job.function.__qualname__:
        raise unfindable(job.kind, "its function is defined inside another")
    if job.module == MAIN and main_of() == (None, None):
        raise unfindable(job.kind, "it is declared where there is no file, as in a notebook")


def main_of() -> tuple[str | None, str | None]:
    """Return the name of this program's main module (``python -m``), and its file."""
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    return (None if spec is None else spec.name), getattr(main, "__file__", None)


def unfindable(kind: str, why: str) -> BadInput:
    """Return the error for a job that a child process cannot find."""
    return BadInput(
        f"job {kind!r} has process=True, and a child process could not find it: {why}. Declare "
        f"app and job at the top of a module, or leave out process=True."
    )
