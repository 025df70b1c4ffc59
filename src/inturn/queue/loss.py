"""What of an argument the handler would not get, or get otherwise, by the annotation it has."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

_PARTED = {typing.Union, types.UnionType, list, tuple, set, frozenset, dict}
_WHOLE = {
    *(None, type(None), bool, int, float, str, bytes, Decimal, UUID),
    *(date, datetime, time, timedelta, list, tuple, set, frozenset, dict, Any, object),
}
"""What is read as it was written: it has no members that could be left out."""
_OTHER = ""  # no place at all


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


def lost_member(written: Any, read: Any, at: str = "", *, is_guess: bool = False) -> str | None:
    """Return where a member stands that was written and was not read; None if nowhere.

    ``written`` is JSON, as Python has it, and ``read`` what was made of it by its annotation.
    ``is_guess``: whether it was made of just this is to be found out; ``_OTHER`` if it was not.
    """
    if isinstance(written, list):
        return _lost_of_list(written, read, at, is_guess=is_guess)
    if isinstance(written, Mapping):
        return _lost_of_object(written, read, at, is_guess=is_guess)
    return None


def changed_member(given: Any, read: Any, at: str = "") -> str | None:
    """Return where an object was given that holds another number or text once it was read again.

    As one does whose ``__post_init__`` changes what it is made of, each time.
    """
    if type(given) is not type(read):  # written otherwise, such as a dict for a dataclass
        return None
    if isinstance(given, int | float | str):
        return at if given != read else None
    if isinstance(given, dict):
        pairs = ((f"{at}.{key}", one, read[key]) for key, one in given.items() if key in read)
    elif (members := _listed(given)) is not None:
        others = enumerate(zip(members, _listed(read) or (), strict=False))
        pairs = ((f"{at}[{n}]", one, other) for n, (one, other) in others)
    else:
        named = _named(read) or {}
        before = _named(given) or {}
        pairs = ((f"{at}.{name}", one, named[name]) for name, one in before.items())
    return _first(changed_member(one, other, place) for place, one, other in pairs)


def _lost_of_list(written: list[Any], read: Any, at: str, *, is_guess: bool) -> str | None:
    if isinstance(read, set | frozenset):
        among = (_lost_of_any(one, read, f"{at}[{n}]") for n, one in enumerate(written))
        return _first(among, is_guess=is_guess)
    if _is_model(read):
        return lost_member(written, read.root, at) if hasattr(read, "root") else None
    members = _listed(read)
    if members is None or (is_guess and not _may_be(written, read, members)):
        return _OTHER if is_guess else None
    places = (
        lost_member(one, other, f"{at}[{n}]", is_guess=is_guess)
        for n, (one, other) in enumerate(zip(written, members, strict=False))
    )
    found = _first(places, is_guess=is_guess)
    is_cut = isinstance(read, msgspec.Struct) and len(members) < len(written)
    return f"{at}[{len(members)}]" if found is None and is_cut else found


def _may_be(written: list[Any], read: Any, members: Sequence[Any]) -> bool:
    """Whether a list may be what a member of a set was read from: of its length, or tag."""
    if isinstance(read, msgspec.Struct):
        return read.__struct_config__.tag in (None, *written[:1])
    return len(members) == len(written)


def _lost_of_any(one: Any, read: Iterable[Any], at: str) -> str | None:
    """Look for a member of a set among all that were read, for they have another order."""
    if not isinstance(one, Mapping | list):
        return None
    lost = _OTHER
    for other in read:
        place = lost_member(one, other, at, is_guess=True)
        if place is None:
            return None
        lost = lost or place
    return lost


def _lost_of_object(
    written: Mapping[str, Any], read: Any, at: str, *, is_guess: bool
) -> str | None:
    if _is_model(read):
        return _lost_of_model(written, read, at)
    if isinstance(read, Mapping) and len(read) < len(written):
        return f"{at}.{next(name for name in written if name not in read)}"
    members = _paired(written, read) if isinstance(read, Mapping) else _named(read)
    if members is None or (is_guess and not _has_tag(written, read)):
        return _OTHER if is_guess else None
    places = (
        lost_member(one, members[name], f"{at}.{name}", is_guess=is_guess)
        if name in members
        else f"{at}.{name}"
        for name, one in written.items()
    )
    return _first(places, is_guess=is_guess)


def _has_tag(written: Mapping[str, Any], read: Any) -> bool:
    """Whether an object has the tag, if there is one, of what it may have been read as."""
    config = getattr(read, "__struct_config__", None)
    return config is None or config.tag in (None, written.get(config.tag_field))


def _lost_of_model(written: Mapping[str, Any], read: Any, at: str) -> str | None:
    """Compare with a model of pydantic, which may take a member by several names, or make it of
    others, so that only one that is plainly missing counts.
    """
    again = msgspec.json.decode(rewritten(read) or b"null")
    if not isinstance(again, Mapping):
        return lost_member(written, getattr(read, "root", None), at)
    if again.keys() < written.keys():
        return f"{at}.{next(name for name in written if name not in again)}"
    fields = getattr(type(read), "model_fields", {})
    found = {name: name for name in fields}
    found |= {one.serialization_alias: name for name, one in fields.items()}
    return _first(
        lost_member(one, getattr(read, found[name], None), f"{at}.{name}")
        for name, one in written.items()
        if name in found
    )


def rewritten(model: Any) -> msgspec.Raw | None:
    """Write down a model of pydantic as it is written when it is submitted.

    Anything else that is not JSON was not read from it, but is the default of a member.
    """
    if not _is_model(model):
        return None
    return msgspec.Raw(model.model_dump_json(by_alias=True, round_trip=True).encode())


def _is_model(read: Any) -> bool:
    return hasattr(type(read), "model_dump_json")


def _listed(read: Any) -> Sequence[Any] | None:
    """Return the members of what is written as a list; None if it is not."""
    if isinstance(read, list | tuple):
        return read
    if isinstance(read, msgspec.Struct) and read.__struct_config__.array_like:
        tag = read.__struct_config__.tag
        members = [getattr(read, name) for name in read.__struct_fields__]
        return members if tag is None else [tag, *members]
    return None


def _paired(written: Mapping[str, Any], read: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return the members of a dict by their names as they were written.

    A key may be written otherwise (``1`` for ``1.0``), but then all stand in the same order.
    """
    return {
        name: read.get(name, other) for name, other in zip(written, read.values(), strict=False)
    }


def _named(read: Any) -> Mapping[str, Any] | None:
    """Return the members of what is written as an object, by their names there."""
    if isinstance(read, msgspec.Struct) and not read.__struct_config__.array_like:
        names = zip(read.__struct_encode_fields__, read.__struct_fields__, strict=True)
        config = read.__struct_config__
        tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        return {written: getattr(read, name) for written, name in names} | tag
    of_attrs = getattr(type(read), "__attrs_attrs__", None)
    fields = dataclasses.fields(read) if dataclasses.is_dataclass(read) else of_attrs
    return None if fields is None else {one.name: getattr(read, one.name, None) for one in fields}


def _first(places: Iterable[str | None], *, is_guess: bool = False) -> str | None:
    """Return the first place, None if there is none; of a guess ``_OTHER``, if that is there."""
    if is_guess:
        return min((place for place in places if place is not None), key=bool, default=None)
    return next((place for place in places if place), None)


def _is_hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True
