"""What code says of a queue, ``app.queue("orders", on_dead="halt")``, and of a background duty."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from inturn.model import bounds
from inturn.model.admissible import check_name, check_number, shown
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput
from inturn.model.spelling import did_you_mean
from inturn.store.store import Store


class QueueDeclaration(TypedDict, total=False):
    """What code may say of a queue."""

    on_dead: Literal["skip", "halt"]
    replay: Literal["tail", "none"]
    suspects: Literal["alone", "again"]
    running_max: int | None
    rate: tuple[int, float | str] | None
    depth_max: int | None
    lane_depth_max: int | None
    keep_done: float | str
    aging: float | str
    local: bool


def plain_settings(declared: QueueDeclaration) -> dict[str, Any]:
    """Return what is declared as settings of ``QueueSettings``, as JSON has them."""
    given: dict[str, Any] = dict(declared)
    for name in given.keys() - QueueDeclaration.__annotations__:
        known = sorted(QueueDeclaration.__annotations__)
        raise BadInput(
            f"a queue has no setting {name!r}.{did_you_mean(name, known)} It has "
            f"{', '.join(known)}."
        )
    for name in ("keep_done", "aging"):
        if name in given:
            given[f"{name}_seconds"] = _seconds(given.pop(name))
    if "rate" in given:
        rate = given["rate"]
        if rate is not None and not (isinstance(rate, tuple) and len(rate) == 2):
            raise BadInput(f'a rate is so many jobs in a time, (50, "5m"), not {shown(rate)}.')
        number, per = rate or (None, None)
        given |= {"rate": number, "rate_seconds": None if per is None else _seconds(per)}
    return {name: str(value) if isinstance(value, str) else value for name, value in given.items()}


def _seconds(time: float | str) -> float:
    """Return the seconds of "5m", or of a number."""
    if isinstance(time, str):
        return parse_duration(time)
    check_number("a time", time, 0.0, bounds.RATE_SECONDS_MAX)
    return float(time)


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
