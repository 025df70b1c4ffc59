"""What an app, and the jobs that are declared on it, say to its worker."""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any

from inturn.model.admissible import shown
from inturn.model.errors import BadInput
from inturn.queue.app import App
from inturn.queue.job import Job


def checked_app(app: object) -> App:
    """Return an app, or refuse what is none."""
    if isinstance(app, App):
        return app
    raise BadInput(
        f"{shown(app)} is no app. Give the inturn.App whose jobs are to run, with Worker(app) or "
        f"Executor(app=app)."
    )


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
