"""What a parameter can never be given: nothing of its type can be read from JSON, or not whole."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from msgspec import inspect

_AS_TEXT = (
    *(PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network),
    *(ipaddress.IPv6Network, ipaddress.IPv4Interface, ipaddress.IPv6Interface),
)
_COLLECTIONS = inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType
_RECORDS = (
    inspect.StructType | inspect.DataclassType | inspect.NamedTupleType | inspect.TypedDictType
)


def is_model(kind: type) -> bool:
    """Whether it is a model of pydantic, or like one."""
    return callable(getattr(kind, "model_validate_json", None))


def unreadable(hint: Any) -> type | None:
    """Return the class that keeps a parameter from being given anything but None or what is empty.

    None where there is no such class, or that cannot be told.
    """
    try:
        return _of_parameter(inspect.type_info(hint))
    except (TypeError, NameError, AttributeError):  # msgspec says what is wrong itself
        return None


def instead_of(kind: type) -> str:
    """Say how to annotate what cannot be read."""
    if issubclass(kind, _AS_TEXT):
        return f"Write str instead, and make a {kind.__name__} of it in the handler"
    if kind.__name__ == "Callable":
        return "Write str instead, a name by which the handler finds what to call"
    if issubclass(kind, Mapping):
        return "Write dict[…] instead"
    if issubclass(kind, Iterable) and kind.__module__ in ("collections", "collections.abc"):
        return "Write list[…] instead"
    return "Take JSON's own types, dataclasses, dates, UUIDs, decimals or models of pydantic"


def unwritten(hint: Any) -> tuple[type, str] | None:
    """Return a class of attrs, anywhere in a hint, and what it is made with and is never written.

    msgspec leaves out those that begin with an underscore, which only of a dataclass it writes.
    """
    try:
        found = [inspect.type_info(hint)]
    except (TypeError, NameError, AttributeError):
        return None
    seen: dict[int, inspect.Type] = {}
    while found:
        info = found.pop()
        if id(info) in seen:  # a record may hold itself
            continue
        seen[id(info)] = info
        if isinstance(info, _RECORDS):
            for attribute in getattr(info.cls, "__attrs_attrs__", ()):
                if attribute.name.startswith("_") and attribute.init:
                    return info.cls, attribute.name
        found.extend(_parts(info))
    return None


def _parts(info: inspect.Type) -> Iterable[inspect.Type]:
    """Return all that may be in a value of a type."""
    if isinstance(info, inspect.Metadata):
        return (info.type,)
    if isinstance(info, _COLLECTIONS):
        return (info.item_type,)
    if isinstance(info, inspect.DictType):
        return (info.key_type, info.value_type)
    if isinstance(info, inspect.UnionType):
        return info.types
    if isinstance(info, inspect.TupleType):
        return info.item_types
    if isinstance(info, _RECORDS):
        return tuple(one.type for one in info.fields)
    return ()


def _of_parameter(info: inspect.Type) -> type | None:
    """Look into collections, too: one that can only be empty is of no use."""
    if isinstance(info, inspect.Metadata):
        return _of_parameter(info.type)
    if isinstance(info, _COLLECTIONS):
        return _of_parameter(info.item_type)
    if isinstance(info, inspect.DictType):
        return _of_parameter(info.key_type) or _of_parameter(info.value_type)
    if isinstance(info, inspect.UnionType):
        others = [one for one in info.types if not isinstance(one, inspect.NoneType)]
        found = [_of_parameter(one) for one in others]
        return found[0] if found and all(found) else None
    return _of_value(info, frozenset())


def _of_value(info: inspect.Type, around: frozenset[Any]) -> type | None:
    """Look for what every value must have: what may be None, empty or left out is no hindrance."""
    if isinstance(info, inspect.CustomType):
        return None if info.cls is object or is_model(info.cls) else info.cls
    if isinstance(info, inspect.Metadata):
        return _of_value(info.type, around)
    if isinstance(info, inspect.TupleType):
        parts = info.item_types
    elif isinstance(info, _RECORDS) and id(info) not in around:
        around |= {id(info)}  # it may hold itself
        parts = tuple(one.type for one in info.fields if one.required)
    else:
        return None
    return next((found for one in parts if (found := _of_value(one, around))), None)
