"""What code says of a queue: ``app.queue("orders", on_dead="halt", rate=(50, "5m"))``."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from inturn.model import bounds
from inturn.model.admissible import check_number, shown
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput


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
