"""A background duty: what an app has its workers do again and again beside their jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from inturn.model import bounds
from inturn.model.admissible import check_name, check_number, shown
from inturn.model.errors import BadInput
from inturn.store.store import Store

DutyFunction = Callable[[Store, datetime], Awaitable[float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """A function, how often it is called, and whether by one worker at a time."""

    name: str
    function: DutyFunction
    every_seconds: float
    alone: bool

    def __post_init__(self) -> None:
        check_name("duty", self.name, bounds.KIND_CHARS_MAX)
        check_number("every_seconds", self.every_seconds, 0.001, bounds.DELAY_SECONDS_MAX)
        if not callable(self.function):
            raise BadInput(
                f"duty {self.name!r} needs an async function, not {shown(self.function)}."
            )
