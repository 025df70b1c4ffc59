"""What the jobs that are declared on an app say to its worker."""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any

from inturn.queue.app import App
from inturn.queue.job import Job


def queues_of(app: App) -> list[str]:
    """Return the queues that they are submitted to."""
    return sorted({job.options.queue for job in app.jobs.values()} or {"default"})


def codes_of(*jobs: Job[Any, Any]) -> dict[CodeType, str]:
    """Return the code of every handler, with its kind."""
    found: dict[CodeType, str] = {}
    for job in jobs:
        for function in (job.function, inspect.unwrap(job.function)):
            code: Any = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                found[code] = job.kind
    return found
