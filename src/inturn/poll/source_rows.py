"""A source's rows in the store, and the queries that read and write them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

from inturn.model.ids import new_id
from inturn.model.job import NewJob
from inturn.poll.page import Shadow
from inturn.store.queries import Query
from inturn.store.store import Store
from inturn.store.transaction import Transaction

WALK_ATTEMPTS_MAX = 10


class WalkState(StrEnum):
    """How far a walk through the whole source is."""

    NONE = "none"
    WALKING = "walking"
    SWEEPING = "sweeping"  # it is complete, and what it did not see is deleted
    HELD = "held"  # it would delete more than is allowed: a person decides
    DONE = "done"


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source as the store keeps it. ``walk`` is the number of the last walk."""

    name: str
    job: str
    queue: str
    last_job: str | None
    cursor: str | None
    page_digest: str | None
    revision: int
    pages: int
    changes: int
    changed_at: datetime | None
    succeeded_at: datetime | None
    walk: int
    walk_state: WalkState
    walk_cursor: str | None
    walk_ended_at: datetime | None
    walk_missing: int
    walk_swept: int

    def new_job(self, *, reconcile: bool = False, forced: int = 0) -> NewJob:
        """Return a job that reads its pages, or walks through all of it.

        A walk is given up after some attempts: no page is read while one is tried again.
        """
        made = msgspec.json.decode(self.job, type=NewJob)
        if reconcile:
            made = msgspec.structs.replace(made, attempts_max=WALK_ATTEMPTS_MAX)
        asked = {"reconcile": reconcile, "forced": forced}
        payload = msgspec.json.encode({name: one for name, one in asked.items() if one}).decode()
        return msgspec.structs.replace(made, id=new_id(), unsent=True, payload=payload)


class SourceDeclaration(msgspec.Struct, frozen=True):
    """A source as code has it: the job that reads its pages, and the queue of its changes."""

    name: str
    job: NewJob
    queue: str

    def is_as(self, row: SourceRow | None) -> bool:
        """Whether the store has it like this."""
        return row is not None and (row.job, row.queue) == (job_text(self.job), self.queue)


class Counts(msgspec.Struct, frozen=True):
    """How many items a source has, and how many a walk has not seen."""

    items: int
    missing: int


SOURCES = Query("inturn.poll", "sources", SourceRow)
SOURCE = Query("inturn.poll", "source", SourceRow)
LOCK_SOURCE = Query("inturn.poll", "lock_source", SourceRow)
DECLARE_SOURCE = Query("inturn.poll", "declare_source")
SOURCE_ASKED = Query("inturn.poll", "source_asked")
WRITE_SOURCE = Query("inturn.poll", "write_source")
SOURCE_SUCCEEDED = Query("inturn.poll", "source_succeeded")
FORGET_SHADOWS = Query("inturn.poll", "forget_shadows")
FORGET_VERSIONS = Query("inturn.poll", "forget_versions")
COUNT_SHADOWS = Query("inturn.poll", "count_shadows", Counts)
SHADOWS = Query("inturn.poll", "shadows", Shadow)
MISSING_SHADOWS = Query("inturn.poll", "missing_shadows", Shadow)
WRITE_SHADOWS = Query("inturn.poll", "write_shadows")
MARK_SHADOWS = Query("inturn.poll", "mark_shadows")
DROP_SHADOWS = Query("inturn.poll", "drop_shadows")


def job_text(job: NewJob) -> str:
    """Return a job as the store keeps it to be made again, without an id: each has its own."""
    made = msgspec.structs.replace(job, id=UUID(int=0), unsent=False)
    return msgspec.json.encode(made).decode()


async def declare_sources(store: Store, sources: Iterable[SourceDeclaration]) -> None:
    """Write sources as the code has them, those that are new or were changed."""
    known = {row.name: row for row in await store.read(SOURCES)}
    changed = [one for one in sources if not one.is_as(known.get(one.name))]
    if changed:
        async with store.transaction() as t:
            for one in changed:
                await t.run(DECLARE_SOURCE, name=one.name, job=job_text(one.job), queue=one.queue)


async def write_source(t: Transaction, row: SourceRow, **changes: Any) -> SourceRow:
    """Write a source whose row was locked, with some changes; return the row as it is then."""
    written = msgspec.structs.replace(row, revision=row.revision + 1, **changes)
    given = msgspec.structs.asdict(written)
    others = {"job", "queue", "last_job", "succeeded_at"}  # these are written without the lock
    await t.run(WRITE_SOURCE, **{name: given[name] for name in given.keys() - others})
    return written
