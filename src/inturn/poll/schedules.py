"""Schedules in a store: declared by workers, fired by whichever worker looks first."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from inturn.model.admissible import check_by
from inturn.model.errors import BadInput, InturnError, NotFound, StoreError
from inturn.model.ids import new_id
from inturn.model.job import NewJob, Ticket
from inturn.poll import SCHEMA
from inturn.poll.rule import CatchUp, Every, Rule, due
from inturn.poll.source_rows import SourceDeclaration, declare_sources, job_text
from inturn.store.queries import Query
from inturn.store.store import Store
from inturn.store.transaction import Transaction

LOOK_SECONDS = 2.0
"""How often a worker looks at its schedules at the latest: a person may have resumed one."""

SEEN_SECONDS = 20.0
"""How often a program's workers say which schedules they declare."""

UNSEEN_SECONDS = 60.0
"""After so long a time without a word, no running worker declares a schedule or a source."""

_json = msgspec.json.Encoder()
_rule_decoder: msgspec.json.Decoder[Rule] = msgspec.json.Decoder(Rule)


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is declared: when it fires, and the job it submits then."""

    name: str
    rule: Rule
    catch_up: CatchUp
    job: NewJob
    alone: bool = False
    """Whether it leaves out a firing while its last job is unfinished, as that of a source does."""

    def row(self, before: ScheduleRow | None, now: datetime) -> ScheduleRow:
        """Return it as the store is to have it. A new rule begins now; all else stays.

        A new source that is read at intervals is first read at once.
        """
        rule = _json.encode(self.rule).decode()
        if before is None and self.alone and isinstance(self.rule, Every):
            next_at = now
        elif before is None or before.rule != rule:
            next_at = self.rule.next_after(now)
        else:
            next_at = before.next_at
        given: dict[str, Any] = {"rule": rule, "catch_up": self.catch_up, "job": job_text(self.job)}
        given |= {"alone": self.alone, "next_at": next_at}
        if before is None:
            return ScheduleRow(name=self.name, **given)
        return msgspec.structs.replace(before, **given)


class ScheduleRow(msgspec.Struct, kw_only=True):
    """A schedule as the store keeps it."""

    name: str
    rule: str
    catch_up: CatchUp
    job: str
    alone: bool
    next_at: datetime
    last_at: datetime | None = None
    last_job: str | None = None
    paused_by: str | None = None

    def read_rule(self) -> Rule:
        """Return when it fires."""
        try:
            return _rule_decoder.decode(self.rule)
        except msgspec.ValidationError as error:  # without what reads cron expressions
            raise BadInput(str(error)) from None

    def new_job(self) -> NewJob:
        """Return the job of one firing."""
        made = msgspec.json.decode(self.job, type=NewJob)
        return msgspec.structs.replace(made, id=new_id(), unsent=True)


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a person sees it."""

    name: str
    rule: Rule
    catch_up: CatchUp
    kind: str
    queue: str
    next_at: datetime
    last_at: datetime | None
    last_job: str | None
    paused_by: str | None
    declared: bool
    """Whether a running worker declares it. Without one it does not fire."""


class _NextAt(msgspec.Struct):
    next_at: datetime | None


class _Declaration(msgspec.Struct):
    names: str
    sources: str


class _SeenAt(msgspec.Struct):
    seen_at: datetime


_SCHEDULES = Query("inturn.poll", "schedules", ScheduleRow)
_LOCK_SCHEDULE = Query("inturn.poll", "lock_schedule", ScheduleRow)
_NEXT_AT = Query("inturn.poll", "next_at", _NextAt)
_DUE = Query("inturn.poll", "due", ScheduleRow)
_WRITE_SCHEDULES = Query("inturn.poll", "write_schedules")
_SEEN = Query("inturn.poll", "seen")
_FORGET_DECLARATIONS = Query("inturn.poll", "forget_declarations")
_DROP_SCHEDULE = Query("inturn.poll", "drop_schedule")
_DECLARATIONS = Query("inturn.poll", "declarations", _Declaration)
_DECLARATION = Query("inturn.poll", "declaration", _SeenAt)


class Firing:
    """Fires one app's schedules. A worker calls ``step`` for ever, in the background."""

    def __init__(
        self, schedules: Iterable[Schedule], sources: Sequence[SourceDeclaration] = ()
    ) -> None:
        self._schedules = {one.name: one for one in schedules}
        self._sources = sources
        self.names = _json.encode(sorted(self._schedules)).decode()
        self._source_names = _json.encode(sorted(one.name for one in sources)).decode()
        self._digest = hashlib.sha256((self.names + self._source_names).encode()).hexdigest()
        self._is_declared = False
        self._say_at: datetime | None = None

    async def step(self, store: Store) -> float:
        """Fire what is due; return after how many seconds to look again."""
        now = await store.now()
        if not self._is_declared:
            await declare(store, list(self._schedules.values()), self._sources, now)
            self._is_declared = True
        await self._say_declared(store, now)
        [found] = await store.read(_NEXT_AT, names=self.names)
        if found.next_at is None:
            return LOOK_SECONDS
        if found.next_at <= now:
            await self._fire(store, now)
            return 0.0
        return min(LOOK_SECONDS, (found.next_at - now).total_seconds())

    async def _fire(self, store: Store, now: datetime) -> None:
        """Fire all that is due at once; or, if one of them is refused, each by itself."""
        unfinished = await self._unfinished(store)
        try:
            async with store.transaction() as t:
                await fire(t, self.names, now, unfinished)
            return
        except StoreError:
            raise
        except InturnError as error:  # a full queue, say, must not hold up the others
            refused = error
        for row in await store.read(_SCHEDULES):
            if row.name not in self._schedules or row.next_at > now:
                continue
            try:
                async with store.transaction() as t:
                    await fire(t, _json.encode([row.name]).decode(), now, unfinished)
            except StoreError:
                raise
            except InturnError as error:
                refused = error
        raise refused  # to be seen in the log, and tried again

    async def _unfinished(self, store: Store) -> set[str]:
        """Return which of the schedules that fire alone have a last job that is unfinished."""
        alone = {one.name for one in self._schedules.values() if one.alone}
        rows = [row for row in await store.read(_SCHEDULES) if row.name in alone] if alone else []
        jobs = {row.name: UUID(row.last_job) for row in rows if row.last_job is not None}
        ended = await store.ended(list(jobs.values()))
        return {name for name, job in jobs.items() if job not in ended}

    async def _say_declared(self, store: Store, now: datetime) -> None:
        """Let it be seen that this program's schedules fire, if none of its workers has lately."""
        if self._say_at is not None and now < self._say_at:
            return
        self._say_at = now + timedelta(seconds=SEEN_SECONDS)
        seen = await store.read(_DECLARATION, digest=self._digest)
        if not seen or now - seen[0].seen_at >= timedelta(seconds=SEEN_SECONDS * 0.9):
            async with store.transaction() as t:
                given = {"names": self.names, "sources": self._source_names}
                await t.run(_SEEN, digest=self._digest, now=now, **given)
                await t.run(_FORGET_DECLARATIONS, before=now - timedelta(days=1))


async def declare(
    store: Store,
    schedules: Sequence[Schedule],
    sources: Sequence[SourceDeclaration],
    now: datetime,
) -> None:
    """Write schedules and sources as the code has them, those that are new or were changed.

    A new rule begins now; another job or ``catch_up`` leaves the next time as it was. The schedule
    of a source that has none any more is taken away.
    """
    await store.ensure(SCHEMA)
    await declare_sources(store, sources)
    known = {row.name: row for row in await store.read(_SCHEDULES)}
    changed = [one for one in schedules if one.row(known.get(one.name), now) != known.get(one.name)]
    unscheduled = {f"poll:{one.name}" for one in sources} - {one.name for one in schedules}
    gone = unscheduled & known.keys()
    if not changed and not gone:
        return
    async with store.transaction() as t:
        for name in gone:
            await t.run(_DROP_SCHEDULE, name=name)
        rows = []
        for one in changed:  # read again, locked: another worker may fire one at this moment
            row = next(iter(await t.run(_LOCK_SCHEDULE, name=one.name)), None)
            rows.append(one.row(row, now))
        await t.run_many(_WRITE_SCHEDULES, rows)


async def fire(t: Transaction, names: str, now: datetime, unfinished: Collection[str] = ()) -> None:
    """Submit the jobs of schedules that are due, and move them on.

    ``unfinished``: those that fire alone and whose last job is unfinished; their firing is left
    out. Nobody else has these schedules until the transaction ends: one firing is one job.
    """
    jobs: list[NewJob] = []
    rows = await t.run(_DUE, now=now, names=names)
    for row in rows:
        found = due(row.read_rule(), row.next_at, now, row.catch_up)
        made = [] if row.name in unfinished else [row.new_job() for _ in found.times]
        jobs += made
        if made:
            row.last_at, row.last_job = now, str(made[-1].id)
        row.next_at = found.next_at
    await t.enqueue(jobs)
    await t.run_many(_WRITE_SCHEDULES, rows)


# What a person does


async def schedules(store: Store) -> list[ScheduleView]:
    """Return all schedules, by name."""
    await store.ensure(SCHEMA)
    declared = {name for one in await _declarations(store) for name in _names(one.names)}
    return [_view(row, row.name in declared) for row in await store.read(_SCHEDULES)]


async def declared_sources(store: Store) -> set[str]:
    """Return the sources that a running worker declares."""
    return {name for one in await _declarations(store) for name in _names(one.sources)}


async def _declarations(store: Store) -> list[_Declaration]:
    since = await store.now() - timedelta(seconds=UNSEEN_SECONDS)
    return await store.read(_DECLARATIONS, since=since)


def _names(text: str) -> list[str]:
    return msgspec.json.decode(text, type=list[str])


async def run_schedule(store: Store, name: str) -> Ticket:
    """Submit a schedule's job now, besides its times."""
    async with _changed(store, name) as (t, row):
        [ticket] = await t.enqueue([row.new_job()])
        row.last_at, row.last_job = await store.now(), str(ticket.id)
    return ticket


async def pause_schedule(store: Store, name: str, *, by: str) -> None:
    """Hold a schedule: it does not fire until it is resumed."""
    check_by(by)
    async with _changed(store, name) as (_, row):
        row.paused_by = by


async def resume_schedule(store: Store, name: str) -> None:
    """Let a schedule go on with its next time. What it missed while it was paused is left out."""
    async with _changed(store, name) as (_, row):
        now = await store.now()
        if row.paused_by is not None and row.next_at <= now:
            rule = row.read_rule()
            row.next_at = rule.next_after(rule.last_until(row.next_at, now))
        row.paused_by = None


@asynccontextmanager
async def _changed(store: Store, name: str) -> AsyncIterator[tuple[Transaction, ScheduleRow]]:
    """Lock a schedule, let it be changed, and write it."""
    await store.ensure(SCHEMA)
    async with store.transaction() as t:
        rows = await t.run(_LOCK_SCHEDULE, name=name)
        if not rows:
            raise NotFound(f"there is no schedule {name!r}. List them: `inturn schedules list`.")
        yield t, rows[0]
        await t.run_many(_WRITE_SCHEDULES, rows)


def _view(row: ScheduleRow, declared: bool) -> ScheduleView:
    job = row.new_job()
    return ScheduleView(
        name=row.name,
        rule=row.read_rule(),
        catch_up=row.catch_up,
        kind=job.kind,
        queue=job.queue,
        next_at=row.next_at,
        last_at=row.last_at,
        last_job=row.last_job,
        paused_by=row.paused_by,
        declared=declared,
    )
