"""The same verbs on a real PostgreSQL: a connection for each actor, and one that looks on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import asyncpg

from inturn.model.job import NewJob
from inturn.model.lease import Claim, Wish
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.settling import check_settlements
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.postgres.claim import claim, claims_of
from inturn.store.postgres.settle import settled
from inturn.store.postgres.sql import query
from inturn.store.postgres.store import PostgresStore
from tests.model.rules import Bounds
from tests.model.state import State
from tests.model.verbs import HELD_UP, LOST, OPEN, OVER, REFUSED, Verb

PATIENCE_SECONDS = 60.0
HOUR = timedelta(hours=1)

SEEN = """
select l.active, l.head, l.cursor, l.token is not null, l.head_attempt, l.suspect_last, t.last,
    (select count(*) from inturn.job j where j.lane = l.id),
    array(
        select j.position from inturn.dead d join inturn.job j on j.id = d.id
        where j.lane = l.id order by j.position),
    array(select e.alone from inturn.lease e where l.id = any(e.lanes))
from inturn.lane l join inturn.tail t on t.lane = l.id
where l.queue = $1
"""


class Seen(NamedTuple):
    """What anybody can see of a lane: its committed rows, positions as the model counts them."""

    active: bool
    head: int
    cursor: int
    is_leased: bool
    attempt: int
    suspect_last: int
    last: int
    jobs: int
    dead: tuple[int, ...]
    alone: tuple[bool, ...]  # of each lease


def seen_in(state: State) -> Seen:
    """Return what can be seen of the only lane of a model's state."""
    [lane], [last] = state.lanes, state.tails
    return Seen(
        lane.active, lane.head, lane.cursor, bool(lane.token), lane.attempt, lane.suspect_last,
        last, len(state.log[0]), state.dead[0], tuple(lease.alone for lease in state.leases),
    )  # fmt: skip


class Actor:
    """A producer or worker of flesh and blood: a connection, a transaction, a claim."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.transaction: Any = None
        self.claim: Claim | None = None  # what it holds
        self.found: list[Claim] | None = None  # what its open transaction has claimed
        self.verb: asyncio.Task[str] | None = None

    async def begin(self, isolation: str = "read_committed") -> None:
        self.transaction = self.connection.transaction(isolation=isolation)
        await self.transaction.start()

    async def end(self, how: str) -> None:
        transaction, self.transaction, self.found = self.transaction, None, None
        await getattr(transaction, how)()


class Stage:
    """A lane of a queue of its own, and those who work on it."""

    def __init__(self, store: PostgresStore, queue: str, bounds: Bounds) -> None:
        self._store, self._queue, self._bounds = store, queue, bounds
        self._now = datetime.now(UTC)
        self._batches = {
            f"producer {number}": list(batches)
            for number, batches in enumerate(bounds.producers, start=1)
        }
        self._actors: dict[str, Actor] = {}
        self._onlooker: Any = None

    async def open(self, url: str) -> None:
        """Connect everyone, and make the lane: one job passes through it."""
        self._onlooker = await asyncpg.connect(url)
        names = [*self._batches, *(f"worker {n + 1}" for n in range(self._bounds.workers))]
        for who in names:
            self._actors[who] = Actor(await asyncpg.connect(url))
        await self._store.enqueue([self._job()])
        first = self._actors["worker 1"].connection
        for found in await claim(first, self._wish(), self._later()):
            await first.execute(query("settle"), *self._settled(found, "done"), False)

    async def close(self) -> None:
        """Give up what is open, and take back what is leased."""
        for actor in self._actors.values():
            if actor.verb is not None:
                actor.verb.cancel()
                await asyncio.gather(actor.verb, return_exceptions=True)
            await actor.connection.close()
        await self._onlooker.execute(query("reclaim"), 100, [], self._later())
        await self._onlooker.close()

    async def seen(self) -> Seen:
        row = tuple(await self._onlooker.fetchrow(SEEN, self._queue))
        active, head, cursor, is_leased, attempt, suspect_last, last, jobs, dead, alone = row
        return Seen(
            active, head - 1, cursor - 1, is_leased, attempt, max(suspect_last - 1, 0), last - 1,
            jobs - 1, tuple(position - 1 for position in dead), tuple(alone),
        )  # fmt: skip

    def held_by(self, who: str) -> tuple[int, int, bool] | None:
        """Return the first and last position that a worker believes to hold, and whether alone."""
        found = self._actors[who].claim
        if found is None:
            return None
        return found.jobs[0].position - 1, found.lease.last - 1, found.lease.alone

    async def ask(self, asked: Verb) -> str:
        """Let somebody do something; return how it came out, or that it waits for a lock."""
        actor = self._actors[asked.who]
        actor.verb = asyncio.create_task(self._tried(actor, self._take(asked, actor)))
        while not await _is_done(actor.verb):
            if await self._waits_for_another(actor):
                return HELD_UP
        return await self.outcome(asked.who)

    async def outcome(self, who: str) -> str:
        """Wait for the end of what somebody was asked."""
        verb = self._actors[who].verb
        assert verb is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            outcome = await verb
        self._actors[who].verb = None
        return outcome

    async def _waits_for_another(self, actor: Actor) -> bool:
        """Say whether one of the others holds what somebody wants to lock."""
        blocking = await self._onlooker.fetchval(
            "select pg_blocking_pids($1)", actor.connection.get_server_pid()
        )
        others = {one.connection.get_server_pid() for one in self._actors.values()}
        return not others.isdisjoint(blocking)

    async def _tried(self, actor: Actor, verb: Awaitable[str]) -> str:
        try:
            return await verb
        except asyncpg.SerializationError:
            await actor.end("rollback")
            return REFUSED
        except asyncpg.PostgresError as error:
            if error.sqlstate != "IT001":
                raise
            await actor.end("rollback")
            actor.claim = None
            return LOST

    async def _take(self, asked: Verb, actor: Actor) -> str:
        verb, _, verdict = asked.name.partition(" ")
        if asked.name == "roll back" or verb == "die":
            if actor.transaction is not None:
                await actor.end("rollback")
            actor.claim = None
            self._next_batch(asked.who)
            return OVER
        if verb == "commit":
            return await self._commit(asked.who, actor)
        if asked.who.startswith("producer"):
            return await self._produce(asked.who, verb, actor)
        await actor.begin()
        if verb == "reclaim":
            await actor.connection.execute(query("reclaim"), 1, [], self._later())
            return OPEN
        if verb == "claim":
            actor.found = await claim(actor.connection, self._wish(), self._later())
            return OPEN
        assert actor.claim is not None
        arguments = self._settled(actor.claim, verdict)
        if verb == "turn":
            wish = self._wish()
            rows = await actor.connection.fetch(
                query("turn"), *arguments, wish.queue, wish.jobs_max, wish.lease_seconds,
                wish.kinds, wish.suspects_max,
            )  # fmt: skip
            actor.found = claims_of(self._queue, rows)
        else:
            await actor.connection.execute(query("settle"), *arguments, False)
            actor.found = _left(actor.claim) if verdict == "done in part" else []
        return OPEN

    async def _produce(self, who: str, verb: str, actor: Actor) -> str:
        batch = self._batches[who][0]
        if actor.transaction is None:
            await actor.begin("repeatable_read" if batch.repeatable_read else "read_committed")
            await actor.connection.fetchval("select count(*) from inturn.lane")  # its snapshot
        if verb == "enqueue":
            jobs = [self._job() for _ in range(batch.jobs[0][1])]
            await self._store.enqueue(jobs, connection=actor.connection)
        return OPEN

    async def _commit(self, who: str, actor: Actor) -> str:
        found = actor.found
        await actor.end("commit")
        if found is not None:
            actor.claim = found[0] if found else None
        self._next_batch(who)
        return OVER

    def _next_batch(self, who: str) -> None:
        if self._batches.get(who):
            self._batches[who].pop(0)

    def _settled(self, held: Claim, verdict: str) -> tuple[Any, ...]:
        verdicts: dict[str, Verdict] = {
            "done": Done(),
            "done in part": Done(),
            "retry": Retry(0, "it failed"),
            "bury": Bury("it cannot succeed"),
            "release": Release(),
        }
        said = held.jobs if verdict == "done" else held.jobs[:1]
        outcomes = [Outcome(job, verdicts[verdict]) for job in said]
        found = settled(check_settlements([Settlement(held.lease, outcomes)], "w"), self._later())
        assert found is not None
        return found

    def _job(self) -> NewJob:
        return NewJob(queue=self._queue, kind="k", key="a", attempts_max=self._bounds.attempts_max)

    def _wish(self) -> Wish:
        return Wish(
            queue=self._queue, jobs_max=self._bounds.jobs_max, worker="w", lease_seconds=1.0,
            kinds=None, suspects_max=1,
        )  # fmt: skip

    def _later(self) -> datetime:
        """Return a time at which every lease has run out and every wait is over."""
        self._now += HOUR
        return self._now


async def _is_done(verb: asyncio.Task[str]) -> bool:
    await asyncio.wait([verb], timeout=0.005)
    return verb.done()


def _left(held: Claim) -> list[Claim]:
    return [Claim(held.lease, held.jobs[1:])]
