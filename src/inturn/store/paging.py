"""Pages of lists, and cursors: where a list goes on, as text that callers keep and do not read."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar, overload

import msgspec

from inturn.model import bounds
from inturn.model.admissible import check_whole, shown
from inturn.model.errors import BadInput

Row = TypeVar("Row")
First = TypeVar("First")
Second = TypeVar("Second")


class Page(msgspec.Struct, Generic[Row], frozen=True, kw_only=True):
    """Some rows of a list, and the cursor that continues it (None at the end)."""

    rows: tuple[Row, ...]
    cursor: str | None = None


class Asked(NamedTuple):
    """Which rows of a list are wanted: of which queue, kind and key, from where, how many."""

    queue: str | None = None
    kind: str | None = None
    key: str | None = None
    cursor: str | None = None
    rows_max: int = 100


def check_rows_max(rows_max: int) -> None:
    """Refuse a page that is empty or too long."""
    check_whole("rows_max", rows_max, 1, bounds.PAGE_ROWS_MAX)


def encode_cursor(*place: Any) -> str:
    """Return the cursor of a place: the sort key of the last row of a page."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


@overload
def decode_cursor(cursor: str, first: type[First], /) -> tuple[First]: ...
@overload
def decode_cursor(
    cursor: str, first: type[First], second: type[Second], /
) -> tuple[First, Second]: ...
def decode_cursor(cursor: str, *types: Any) -> tuple[Any, ...]:
    """Return the place that a cursor stands for, of these types. Raises ``BadInput`` on garbage."""
    try:
        text = base64.b64decode(
            cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True
        )
        wanted: Any = tuple[types]  # type: ignore[valid-type]
        place: tuple[Any, ...] = msgspec.json.decode(text, type=wanted)
        if not all(map(_can_be_a_place, place)):
            raise ValueError("no row can have this place")
    except (ValueError, AttributeError, binascii.Error, msgspec.MsgspecError) as error:
        raise BadInput(
            f"{shown(cursor)} is not a cursor of this list. Take the cursor of the page before, or "
            f"leave it out to start at the beginning."
        ) from error
    return place


def _can_be_a_place(part: Any) -> bool:
    """Say whether a store can compare a part of a place with its rows."""
    if isinstance(part, int):
        return abs(part) <= bounds.STORED_MAX
    return not isinstance(part, datetime) or part.tzinfo is not None
