"""A moment reaches its handler as it was, or is refused where it is submitted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any

import pydantic
import pytest

from inturn import App
from inturn.model.errors import BadInput

AMSTERDAM = timezone(timedelta(minutes=19, seconds=32), "as it was before 1937")
NEARLY_UTC = timezone(timedelta(seconds=-7))
OLD = datetime(1880, 1, 1, 12, 30, 15, 500, tzinfo=AMSTERDAM)


@dataclass
class Event:
    at: datetime


class Model(pydantic.BaseModel):
    at: datetime


def payload_of(value: Any) -> str:
    @App("sqlite:///:memory:").job
    def work(x: Any) -> None: ...

    return work.call(value).new.payload


@pytest.mark.parametrize(
    "value",
    [
        OLD,
        datetime(2026, 1, 1, tzinfo=NEARLY_UTC),
        time(12, 30, tzinfo=AMSTERDAM),
        [1, {"at": (datetime(2026, 1, 1, tzinfo=UTC), OLD)}],
        {OLD: 1},
        {OLD},
        [Model(at=datetime(2026, 1, 1, tzinfo=UTC)), Event(OLD)],
    ],
    ids=str,
)
def test_one_that_json_would_shift_is_refused(value: Any) -> None:
    with pytest.raises(BadInput, match=r"has seconds in its offset from UTC, .* Give it in UTC"):
        payload_of(value)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 1, 12),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        OLD.astimezone(UTC),
        OLD.replace(tzinfo=None),
    ],
    ids=str,
)
def test_every_other_comes_back_as_it_was(moment: datetime) -> None:
    @App("sqlite:///:memory:").job
    def work(event: Event, model: Model, texts: list[str]) -> None: ...

    given: dict[str, Any] = {
        "event": Event(moment),
        "model": Model(at=moment),
        "texts": ["12:30:00Z", "x"],
    }
    assert work.arguments.decode(work.call(**given).new.payload) == ([], given)
