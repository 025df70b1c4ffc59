"""A page of an outside system's items, and what it changes in their shadow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from inturn.model import bounds
from inturn.model.admissible import shown
from inturn.model.errors import InturnError

Item = TypeVar("Item")

VERSION_CHARS_MAX = 200
CURSOR_CHARS_MAX = 10_000
PAGE_ITEMS_MAX = 10_000
ITEM_CHARS_MAX = 1_000_000  # its change is a job's payload

ANY_IS_NEWER = ""
"""The version of a shadow that the next sight of its item replaces, whatever version that has."""

_TEXTS = (str, int)
_json = msgspec.json.Encoder(order="sorted")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """What a source returns: items, the cursor after them, and whether there is more now.

    The cursor is the outside system's own, such as its change version. A time or the largest id
    would miss what changes meanwhile.
    """

    items: Sequence[Item]
    cursor: str | int | None
    more: bool = False


class ChangeKind(StrEnum):
    """What became of an item."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"


class Change(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """One item that changed. ``item`` is as it is now; of a deleted one, as it was last seen."""

    kind: ChangeKind
    key: str
    version: str
    item: Item


class SourceBroken(InturnError):
    """A source gave what cannot be applied. Nothing of the page was; its cursor stays."""


class CursorGone(InturnError):
    """Raised by a source's function: the outside system does not know this cursor any more."""


class Fields(msgspec.Struct, frozen=True):
    """Where an item says what it is: the names of its fields, and the type of its shadow."""

    key: str
    version: str
    deleted: str | None
    shadow: Any

    def read(self, item: Any) -> Shadow:
        """Return an item as the source's page has it. Refuses what does not say what it is.

        Of one that is deleted there may be no more than its key and version.
        """
        try:
            values = item if isinstance(item, dict) else msgspec.to_builtins(item)
            if not isinstance(values, dict):
                raise SourceBroken(f"an item has fields; {shown(item)} has none.")
            deleted = self.deleted is not None and bool(values.get(self.deleted))
            whole = values if deleted else msgspec.convert(values, self.shadow)
        except (msgspec.ValidationError, TypeError) as error:
            raise SourceBroken(f"an item is no {self.shadow}: {error}: {shown(item)}.") from None
        key = _text(values, self.key, bounds.KEY_CHARS_MAX, item)
        version = _text(values, self.version, VERSION_CHARS_MAX, item)
        text = _json.encode(whole).decode()
        if len(text) > ITEM_CHARS_MAX:
            raise SourceBroken(
                f"item {shown(key)} has {len(text):,} characters; it may have {ITEM_CHARS_MAX:,}. "
                f"Leave fields out where you fetch it."
            )
        return Shadow(key, version, deleted, text)


class Shadow(msgspec.Struct, frozen=True, gc=False):
    """An item as a page has it, or as it was last seen: ``item`` is its JSON."""

    key: str
    version: str
    deleted: bool
    item: str


class ShadowChange(msgspec.Struct, frozen=True, gc=False):
    """What one item of a page changes: its shadow from now on, and what is told of it."""

    kind: ChangeKind
    shadow: Shadow


def differences(
    items: Iterable[Shadow], shadows: Mapping[str, Shadow]
) -> tuple[list[ShadowChange], list[Shadow]]:
    """Compare a page's items with their shadows: return what to tell, and the shadows to write.

    An item of the same version is no change, so that a page may be read twice; nor is one that is
    older, as a lagging replica may answer; nor, after a reset, one that is as it was. Where an item
    comes twice, each change is told.
    """
    written: dict[str, Shadow] = {}
    changes: list[ShadowChange] = []
    for seen in items:
        before = written.get(seen.key) or shadows.get(seen.key)
        if before is not None and not _is_newer(seen, before):
            continue
        is_there = before is not None and not before.deleted
        shadow = seen
        if not seen.deleted:
            kind = ChangeKind.UPDATED if is_there else ChangeKind.CREATED
            if not (before and is_there and _is_as_before_reset(seen, before)):
                changes.append(ShadowChange(kind, shadow))
        elif before is not None:
            shadow = msgspec.structs.replace(seen, item=before.item)
            if is_there:
                changes.append(ShadowChange(ChangeKind.DELETED, shadow))
        written[seen.key] = shadow
    return changes, list(written.values())


def _is_newer(seen: Shadow, before: Shadow) -> bool:
    if seen.version == before.version:
        return seen.deleted and not before.deleted
    if seen.version.isdecimal() and before.version.isdecimal():
        return int(seen.version) > int(before.version)
    return True


def _is_as_before_reset(seen: Shadow, before: Shadow) -> bool:
    return before.version == ANY_IS_NEWER and seen.item == before.item


def _text(values: Mapping[str, Any], name: str, chars_max: int, item: Any) -> str:
    value = values.get(name)
    text = str(value) if isinstance(value, _TEXTS) and not isinstance(value, bool) else ""
    if not 0 < len(text) <= chars_max:
        raise SourceBroken(
            f"an item's {name!r} is to be a text or a whole number of at most {chars_max} "
            f"characters, not {shown(value)}: {shown(item)}."
        )
    return text


def check_page(page: Any) -> None:
    """Refuse what a source returned if it is no page."""
    if not isinstance(page, Page):
        raise SourceBroken(f"a source returns inturn.Page(items, cursor, more), not {shown(page)}.")
    items: Any = page.items
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        raise SourceBroken(f"a page's items are a list, not {shown(items)}.")
    if len(page.items) > PAGE_ITEMS_MAX:
        raise SourceBroken(
            f"a page has at most {PAGE_ITEMS_MAX:,} items, not {len(page.items):,}. Ask for fewer."
        )
    cursor: Any = page.cursor
    if cursor is not None and (isinstance(cursor, bool) or not isinstance(cursor, str | int)):
        raise SourceBroken(f"a cursor is a text, a whole number or None, not {shown(cursor)}.")
    if len(str(cursor)) > CURSOR_CHARS_MAX:
        raise SourceBroken(f"a cursor has at most {CURSOR_CHARS_MAX:,} characters.")
    if page.more and cursor is None:
        raise SourceBroken("a page with more to come has a cursor, to ask for the rest with.")
