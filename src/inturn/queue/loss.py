"""What of an argument the handler would not get, because its annotation does not have it."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain
from typing import Any
from uuid import UUID

_PARTED = {typing.Union, types.UnionType, list, tuple, set, frozenset, dict}
_WHOLE = {
    *(None, type(None), bool, int, float, str, bytes, Decimal, UUID),
    *(date, datetime, time, timedelta, list, tuple, set, frozenset, dict, Any, object),
}
"""What is read as it was written: it has no members that could be left out."""


def may_lose(hint: Any) -> bool:
    """Say whether what is annotated so may be read with fewer members than it was written with.

    A dataclass, a Struct, a TypedDict or a model may: it takes its own members only, and an
    instance of a subclass has more.
    """
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return False
    if origin is typing.Annotated:
        return may_lose(typing.get_args(hint)[0])
    if origin in _PARTED:
        return any(may_lose(one) for one in typing.get_args(hint) if one is not ...)
    is_enum = isinstance(hint, type) and issubclass(hint, Enum)
    return not is_enum and not (_is_hashable(hint) and hint in _WHOLE)


def lost_member(written: Any, read: Any, at: str = "") -> str | None:
    """Return where a member stands that was written and would not be read; None if nowhere.

    Both are JSON, as Python has it. Sets are read in another order, and dicts may have their keys
    written otherwise, so that only members that are plainly missing count.
    """
    if isinstance(written, Mapping) and isinstance(read, Mapping):
        if read.keys() < written.keys():
            return f"{at}.{next(name for name in written if name not in read)}"
        shared = [name for name in written if name in read]
        places = (lost_member(written[name], read[name], f"{at}.{name}") for name in shared)
        return next((place for place in places if place), None)
    if isinstance(written, list) and isinstance(read, list):
        places = (_lost_of_one(one, read, index, at) for index, one in enumerate(written))
        return next((place for place in places if place), None)
    return None


def _lost_of_one(one: Any, read: list[Any], index: int, at: str) -> str | None:
    """Look for a member of a list among all that were read, first where it stood."""
    if not isinstance(one, Mapping | list):
        return None
    lost = None
    for other in chain(read[index : index + 1], read[:index], read[index + 1 :]):
        if type(other) is type(one):
            missing = lost_member(one, other, f"{at}[{index}]")
            if missing is None:
                return None
            lost = lost or missing
    return lost


def _is_hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True
