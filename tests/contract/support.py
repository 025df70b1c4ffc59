"""Short ways to say what tests do all the time: make jobs, claim them, say what became of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from inturn.model.job import JobState, NewJob
from inturn.model.lane import LaneView, QueueStatus
from inturn.model.lease import Claim
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.store import Store
from inturn.store.transaction import Transaction

LEASE_SECONDS = 30.0
NOWHERE = UUID("01900000-0000-7000-8000-000000000000")  # the id of a job that never was


def job(kind: str = "k", **options: Any) -> NewJob:
    return NewJob(kind=kind, **options)


def jobs(number: int, kind: str = "k", **options: Any) -> list[NewJob]:
    return [NewJob(kind=kind, **options) for _ in range(number)]


async def enqueue(store: Store | Transaction, *jobs: NewJob) -> list[UUID]:
    return [ticket.id for ticket in await store.enqueue(jobs)]


async def claim(
    store: Store, jobs_max: int = 100, worker: str = "w1", queue: str = "default", **options: Any
) -> list[Claim]:
    options.setdefault("lease_seconds", LEASE_SECONDS)
    return await store.claim(queue, jobs_max=jobs_max, worker=worker, **options)


async def claim_one(store: Store, **options: Any) -> Claim:
    """Claim at most one job, and insist that there is one."""
    [claimed] = await claim(store, 1, **options)
    assert len(claimed.jobs) == 1
    return claimed


def ids(claims: Iterable[Claim]) -> list[UUID]:
    return [job.id for claim in claims for job in claim.jobs]


def attempts(claims: Iterable[Claim]) -> list[int]:
    return [job.attempt for claim in claims for job in claim.jobs]


def verdicts(claim: Claim, *said: Verdict) -> Settlement:
    """Say one verdict for each of the claim's first jobs."""
    return Settlement(
        claim.lease, [Outcome(job, verdict) for job, verdict in zip(claim.jobs, said, strict=False)]
    )


def done(claims: Iterable[Claim]) -> list[Settlement]:
    return [Settlement.done(claim) for claim in claims]


def release(claims: Iterable[Claim]) -> list[Settlement]:
    return [Settlement.release(claim) for claim in claims]


def fail(
    claim: Claim, *, delay: float = 10.0, error: str = "boom", counted: bool = True
) -> list[Settlement]:
    """Say that the claim's first job failed and is to be retried."""
    return [verdicts(claim, Retry(delay, error, counted))]


def bury(claim: Claim, error: str = "hopeless") -> list[Settlement]:
    """Say that the claim's first job can never succeed."""
    return [verdicts(claim, Bury(error))]


async def settle(store: Store | Transaction, settlements: Sequence[Settlement]) -> None:
    await store.settle(settlements, worker="w1")


async def turn(
    store: Store,
    settlements: Sequence[Settlement],
    jobs_max: int = 100,
    queue: str = "default",
    **options: Any,
) -> list[Claim]:
    options.setdefault("worker", "w1")
    options.setdefault("lease_seconds", LEASE_SECONDS)
    return await store.turn(settlements, queue, jobs_max=jobs_max, **options)


async def run_all(store: Store, queue: str = "default", jobs_max: int = 100) -> list[UUID]:
    """Claim and finish jobs until none is left to claim; return them in the order they ran."""
    ran: list[UUID] = []
    while claims := await claim(store, jobs_max, queue=queue, suspects_max=100):
        ran += ids(claims)
        await settle(store, done(claims))
    return ran


async def state(store: Store, job: UUID) -> JobState:
    return (await store.job(job)).state


async def states(store: Store, jobs: Iterable[UUID]) -> list[JobState]:
    return [await state(store, job) for job in jobs]


async def queue_status(store: Store, name: str = "default") -> QueueStatus:
    [found] = [status for status in await store.queues() if status.name == name]
    return found


async def lane(store: Store, key: str, queue: str = "default") -> LaneView:
    [found] = (await store.lanes(queue, key=key)).rows
    return found


async def bring_to(
    store: Store, wanted: JobState, *, queue: str = "default", key: str | None = None
) -> UUID:
    """Make a job and bring it into the wanted state. Its queue (and key) should be its own."""
    if wanted is JobState.BLOCKED:
        # What it waits for stands in another queue, where it is in nobody's way.
        [first] = await enqueue(store, job(queue=f"{queue}, before"))
        [made] = await enqueue(store, job(queue=queue, key=key, after=frozenset({first})))
        return made
    delay = 3600.0 if wanted is JobState.SCHEDULED else 0.0
    [made] = await enqueue(store, job(queue=queue, key=key, delay_seconds=delay))
    if wanted is JobState.CANCELLED:
        await store.cancel(made, by="ann")
    said: dict[JobState, Verdict] = {
        JobState.DONE: Done(),
        JobState.RETRYING: Retry(60.0, "boom"),
        JobState.DEAD: Bury("hopeless"),
    }
    if wanted in said or wanted is JobState.RUNNING:
        claimed = await claim_one(store, queue=queue)
        assert ids([claimed]) == [made]
        if wanted in said:
            await settle(store, [verdicts(claimed, said[wanted])])
    assert await state(store, made) is wanted
    return made


EVERY_VERDICT: tuple[Verdict, ...] = (Done(), Retry(1.0, "boom"), Bury("hopeless"), Release())


def is_postgres(store: Store) -> bool:
    return "postgres" in type(store).__module__


async def raw(store: Store, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement past the store's verbs. ``@lane`` is the store's table of lanes."""
    prefix = "inturn." if is_postgres(store) else ""
    async with store.transaction() as transaction:
        return await transaction.execute(statement.replace("@", prefix))


async def rows_of(store: Store, *tables: str) -> dict[str, int]:
    """Count the rows of some tables."""
    return {table: (await raw(store, f"select count(*) from @{table}"))[0][0] for table in tables}


ALL_JOBS_TABLES = ("job", "parked", "blocked", "waits", "dead", "cancelled", "dedupe", "result")


async def stored(store: Store) -> dict[str, int]:
    """Count every row that a job can leave behind, and the queues and lanes."""
    return await rows_of(store, "queue", "lane", "lease", "run", *ALL_JOBS_TABLES)


@asynccontextmanager
async def broken(store: Store, table: str, event: str) -> AsyncIterator[None]:
    """Let every insert into (update of, delete from) a table fail, as if the disk were broken."""
    if is_postgres(store):
        await raw(
            store,
            "create function public.broken() returns trigger language plpgsql as "
            "$$ begin raise exception 'broken by a test'; end $$",
        )
        await raw(
            store,
            f"create trigger broken before {event} on @{table} "
            f"for each row execute function public.broken()",
        )
    else:
        await raw(
            store,
            f"create trigger broken before {event} on @{table} "
            f"begin select raise(abort, 'broken by a test'); end",
        )
    try:
        yield
    finally:
        if is_postgres(store):
            await raw(store, f"drop trigger broken on @{table}")
            await raw(store, "drop function public.broken()")
        else:
            await raw(store, "drop trigger broken")


async def page_through(read: Any, rows_max: int, **filters: Any) -> list[Any]:
    """Read a list to its end, page by page."""
    rows: list[Any] = []
    cursor: str | None = None
    while True:
        page = await read(cursor=cursor, rows_max=rows_max, **filters)
        assert len(page.rows) <= rows_max
        rows += page.rows
        if page.cursor is None:
            return rows
        assert page.rows, "a page without rows must be the last"
        cursor = page.cursor


def job_ids(views: Collection[Any]) -> list[UUID]:
    return [view.job.id for view in views]
