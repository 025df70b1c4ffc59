"""An outside system in memory: items with a rising version, and pages of what changed."""

from __future__ import annotations

import msgspec

import inturn
from inturn.poll import CursorGone


class Item(msgspec.Struct):
    id: str
    version: int
    name: str = ""
    deleted: bool = False


class Outside:
    """Its cursor is its change version. ``keeps_deleted``: deleted items are told as such."""

    def __init__(self, *, page_size: int = 10, keeps_deleted: bool = True) -> None:
        self.items: dict[str, Item] = {}
        self.version = 0
        self.page_size, self.keeps_deleted = page_size, keeps_deleted
        self.requests = 0
        self.error: Exception | None = None

    def put(self, *ids: str, name: str = "") -> None:
        for id in ids:
            self.version += 1
            self.items[id] = Item(id, self.version, name or f"{id}-{self.version}")

    def delete(self, *ids: str) -> None:
        for id in ids:
            self.version += 1
            if self.keeps_deleted:
                self.items[id] = Item(id, self.version, self.items[id].name, deleted=True)
            else:
                del self.items[id]

    @property
    def living(self) -> dict[str, int]:
        return {id: item.version for id, item in self.items.items() if not item.deleted}

    def page(self, cursor: str | None) -> inturn.Page[Item]:
        self.requests += 1
        if self.error is not None:
            raise self.error
        after = int(cursor or 0)
        if after > self.version:
            raise CursorGone(f"no such version: {after}")
        changed = sorted(
            (item for item in self.items.values() if item.version > after),
            key=lambda item: item.version,
        )
        found = changed[: self.page_size]
        last = found[-1].version if found else after
        return inturn.Page(found, str(last), more=len(changed) > len(found))
