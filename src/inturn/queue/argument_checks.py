"""What JSON cannot carry of arguments: found where a job is declared, or where it is submitted."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

_RECORDS = (
    inspect.StructType | inspect.DataclassType | inspect.NamedTupleType | inspect.TypedDictType
)
_MISSING = object()


def is_model(kind: type) -> bool:
    """Whether it is a model of pydantic, or like one."""
    return callable(getattr(kind, "model_validate_json", None))


def written_model(value: Any) -> msgspec.Raw | None:
    """Return a model of pydantic as JSON; None for anything else that msgspec does not know."""
    if not is_model(type(value)):
        return None
    return msgspec.Raw(value.model_dump_json(by_alias=True, round_trip=True).encode())


def unreadable(hint: Any) -> str | None:
    """Return why no value of a type can be read from JSON whole; None if one can."""
    try:
        return _unreadable(inspect.type_info(hint), frozenset())
    except (TypeError, NameError, AttributeError):  # msgspec says what is wrong itself
        return None


def _unreadable(info: inspect.Type, around: frozenset[type]) -> str | None:
    """Walk through all that a value must have: not what has a default."""
    if isinstance(info, inspect.CustomType):
        if info.cls is object or is_model(info.cls):
            return None
        return f"{info.cls.__name__} cannot be read from JSON"
    if isinstance(info, inspect.UnionType):
        others = [one for one in info.types if not isinstance(one, inspect.NoneType)]
        found = [_unreadable(one, around) for one in others]
        return found[0] if found and all(found) else None
    parts = [getattr(info, name, None) for name in ("type", "item_type", "key_type", "value_type")]
    parts += getattr(info, "item_types", ())
    if isinstance(info, _RECORDS) and info.cls not in around:
        around |= {info.cls}  # it may hold itself
        parts += [one.type for one in info.fields if one.required]
    why = (_unreadable(one, around) for one in parts if one is not None)
    return next(filter(None, why), None)


def lost_member(written: Any, read: Any, at: str = "") -> str | None:
    """Return where a member stands that was written and is not read; None if there is none.

    Both are JSON as Python has it: ``written`` of what was given, ``read`` of what the handler
    gets. It may get more, such as defaults, and numbers and text in another spelling.
    """
    if read is _MISSING:
        return at
    if isinstance(written, dict):
        members = read if isinstance(read, dict) else {}
        lost = (
            lost_member(one, members.get(name, _MISSING), f"{at}.{name}")
            for name, one in written.items()
        )
        return next(filter(None, lost), None)
    if isinstance(written, list):
        return _lost_of_list(written, read if isinstance(read, list) else [], at)
    return None


def _lost_of_list(written: list[Any], read: list[Any], at: str) -> str | None:
    """Look for each member at its place, and then at any: sets have no order."""
    places = [*read, *[_MISSING] * (len(written) - len(read))]
    lost = [
        (one, place)
        for n, one in enumerate(written)
        if (place := lost_member(one, places[n], f"{at}[{n}]")) is not None
    ]
    texts = {msgspec.json.encode(one) for one in read} if lost else set()
    return next((place for one, place in lost if msgspec.json.encode(one) not in texts), None)
