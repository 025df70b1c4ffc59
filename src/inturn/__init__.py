"""Durable jobs in turn: every key its own lane, every lane in order, on SQLite or PostgreSQL."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inturn.executor import Executor, ExecutorSettings
    from inturn.policy.retry import Reject, RetryLater, RetryPolicy
    from inturn.queue.app import App
    from inturn.queue.context import Context
    from inturn.queue.job import Call, Job
    from inturn.queue.ticket import Ticket
    from inturn.worker.durable import DurableExecutor
    from inturn.worker.worker import Worker

__version__ = "0.1.0.dev0"

__all__ = [
    "App",
    "Call",
    "Context",
    "DurableExecutor",
    "Executor",
    "ExecutorSettings",
    "Job",
    "Reject",
    "RetryLater",
    "RetryPolicy",
    "Ticket",
    "Worker",
]

_HOMES = {
    "App": "inturn.queue.app",
    "Call": "inturn.queue.job",
    "Context": "inturn.queue.context",
    "DurableExecutor": "inturn.worker.durable",
    "Executor": "inturn.executor",
    "ExecutorSettings": "inturn.executor",
    "Job": "inturn.queue.job",
    "Reject": "inturn.policy.retry",
    "RetryLater": "inturn.policy.retry",
    "RetryPolicy": "inturn.policy.retry",
    "Ticket": "inturn.queue.ticket",
    "Worker": "inturn.worker.worker",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for, so that a command starts fast."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'inturn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
