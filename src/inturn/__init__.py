"""Durable jobs in turn: every key its own lane, every lane in order, on SQLite or PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inturn.executor import Executor, ExecutorSettings

__version__ = "0.1.0.dev0"

__all__ = ["Executor", "ExecutorSettings"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for, so that a command starts fast."""
    if name in __all__:
        from inturn import executor

        return getattr(executor, name)
    raise AttributeError(f"module 'inturn' has no attribute {name!r}")
