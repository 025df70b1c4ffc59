"""What the jobs that are declared on an app say to its worker."""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any

from inturn.queue.app import App


def queues_of(app: App) -> list[str]:
    """Return the queues that they are submitted to."""
    return sorted({job.options.queue for job in app.jobs.values()} or {"default"})


def kinds_of(app: App) -> dict[CodeType, str]:
    """Return the code of every handler, with its kind."""
    found: dict[CodeType, str] = {}
    for kind, job in app.jobs.items():
        for function in (job.function, inspect.unwrap(job.function)):
            code: Any = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                found[code] = kind
    return found
