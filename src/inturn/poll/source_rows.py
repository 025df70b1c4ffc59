"""A source's rows in the store, and the queries that read and write them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from inturn.model.ids import new_id
from inturn.model.job import NewJob
from inturn.poll.page import Shadow
from inturn.store.queries import Query


class PassState(StrEnum):
    """How far a walk through the whole source is."""

    NONE = "none"
    WALKING = "walking"
    SWEEPING = "sweeping"  # it is complete, and what it did not see is deleted
    HELD = "held"  # it would delete more than is allowed: a person decides
    DONE = "done"


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source as the store keeps it. ``number``: of the last walk."""

    name: str
    job: str
    cursor: str | None
    revision: int
    pages: int
    items: int
    changes: int
    changed_at: datetime | None
    number: int = msgspec.field(name="pass")
    pass_state: PassState
    pass_cursor: str | None
    pass_began_at: datetime | None
    pass_ended_at: datetime | None
    pass_swept: int
    pass_missing: int

    def new_job(self, *, reconcile: bool = False, force: bool = False) -> NewJob:
        """Return a job that reads its pages, or walks through all of it."""
        made = msgspec.json.decode(self.job, type=NewJob)
        asked = {"reconcile": reconcile, "force": force}
        payload = msgspec.json.encode({name: True for name, on in asked.items() if on}).decode()
        return msgspec.structs.replace(made, id=new_id(), unsent=True, payload=payload)


class WrittenShadow(msgspec.Struct):
    """A shadow on its way into the store."""

    source: str
    key: str
    version: str
    deleted: bool
    item: str
    seen_pass: int
    changed_at: datetime

    @classmethod
    def of(cls, source: str, one: Shadow, number: int, now: datetime) -> WrittenShadow:
        """Return what is written of a shadow."""
        return cls(source, one.key, one.version, one.deleted, one.item, number, now)


class Counts(msgspec.Struct, frozen=True):
    """How many items a source has, and how many a walk has not seen."""

    items: int
    missing: int


SOURCES = Query("inturn.poll", "sources", SourceRow)
SOURCE = Query("inturn.poll", "source", SourceRow)
LOCK_SOURCE = Query("inturn.poll", "lock_source", SourceRow)
DECLARE_SOURCE = Query("inturn.poll", "declare_source")
PAGE_APPLIED = Query("inturn.poll", "page_applied")
PASS_MOVED = Query("inturn.poll", "pass_moved")
RESET_SOURCE = Query("inturn.poll", "reset_source")
FORGET_SHADOWS = Query("inturn.poll", "forget_shadows")
COUNT_SHADOWS = Query("inturn.poll", "count_shadows", Counts)
SHADOWS = Query("inturn.poll", "shadows", Shadow)
MISSING_SHADOWS = Query("inturn.poll", "missing_shadows", Shadow)
WRITE_SHADOWS = Query("inturn.poll", "write_shadows")
MARK_SHADOWS = Query("inturn.poll", "mark_shadows")
DROP_SHADOWS = Query("inturn.poll", "drop_shadows")
