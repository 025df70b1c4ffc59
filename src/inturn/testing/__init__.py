"""For tests of code that uses inturn: a private store, a clock moved by hand, jobs run at will."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inturn.testing.clock import HandClock
    from inturn.testing.record import Drained, Ran, Submission
    from inturn.testing.sandbox import DrainTimeout, Sandbox, private

__all__ = ["DrainTimeout", "Drained", "HandClock", "Ran", "Sandbox", "Submission", "private"]

_HOMES = {
    "DrainTimeout": "inturn.testing.sandbox",
    "Drained": "inturn.testing.record",
    "HandClock": "inturn.testing.clock",
    "Ran": "inturn.testing.record",
    "Sandbox": "inturn.testing.sandbox",
    "Submission": "inturn.testing.record",
    "private": "inturn.testing.sandbox",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: pytest loads this package for everyone."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'inturn.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
