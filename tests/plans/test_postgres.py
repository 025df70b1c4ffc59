"""With a million jobs waiting in PostgreSQL, each verb of the hot path touches a few rows.

Promise P14 of ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from inturn.model.admissible import make_wish
from inturn.model.job import NewJob
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.policy.settling import check_settlements
from inturn.policy.verdict import Bury, Done, Release, Retry
from inturn.store.paging import Asked
from inturn.store.postgres import reads, status
from inturn.store.postgres.claim import claim as claim_verb
from inturn.store.postgres.claim import extend
from inturn.store.postgres.enqueue import enqueue
from inturn.store.postgres.settle import settle
from inturn.store.postgres.sql import called, query
from inturn.store.postgres.store import PostgresStore
from tests.contract.support import verdicts
from tests.plans.counters import BIG, FEW, counted

SIZES = [("hot small", "hot"), ("wide small", "wide"), ("open small", "open")]

BLOCKED = "select id from inturn.blocked order by id limit 1000"


async def claim(connection: Any, queue: str, jobs_max: int = 100, **options: Any) -> list[Claim]:
    given: dict[str, Any] = {"kinds": None, "suspects_max": 1, "lease_seconds": 30.0} | options
    now = given.pop("now", None)
    return await claim_verb(
        connection, make_wish(queue, jobs_max=jobs_max, worker="w", **given), now
    )


def count(claims: Sequence[Claim]) -> int:
    return sum(len(one.jobs) for one in claims)


@pytest.mark.parametrize(("small", "large"), SIZES)
async def test_a_claim_costs_the_same_whatever_the_backlog(
    connection: Any, small: str, large: str
) -> None:
    costs: dict[str, dict[str, int]] = {}
    for queue in (small, large):
        await warm(connection, queue)
        async with counted(connection) as touched:
            assert count(await claim(connection, queue)) == 100
        assert touched.walked() == []
        costs[queue] = {table: touched.rows(table) for table in BIG}
    for table in BIG:
        assert costs[large][table] <= 1.5 * costs[small][table] + 10, table
    assert costs[large]["job"] <= 250
    assert costs[large]["lane"] <= 400


async def warm(connection: Any, queue: str) -> None:
    """Let functions make their plans, which is not the verb's own work."""
    async with counted(connection):
        await claim(connection, queue)


async def test_a_claim_passes_over_no_lane_that_is_leased_or_asleep(connection: Any) -> None:
    """The 5,000 oldest lanes of this queue are not to be had."""
    async with counted(connection) as touched:
        claims = await claim(connection, "wide", 20)
        assert count(claims) == 20
    assert len(claims) == 5
    assert touched.walked() == []
    assert touched.rows("lane") <= 100
    assert touched.rows("job") <= 60


async def test_a_claim_passes_over_no_lane_whose_worker_died(connection: Any) -> None:
    """The oldest 5,000 lanes are suspects, each to be leased alone."""
    async with counted(connection) as touched:
        before = await lane_entries(connection)
        claims = await claim(connection, "haunted", 20)
        looked_at = await lane_entries(connection) - before
    assert [one.lease.alone for one in claims].count(True) == 1
    assert touched.rows("job") <= 100
    assert looked_at <= 300


async def lane_entries(connection: Any) -> int:
    looked_at: int = await connection.fetchval(
        "select sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint from pg_index "
        "where indrelid = 'inturn.lane'::regclass"
    )
    return looked_at


async def test_a_claim_of_an_empty_queue_touches_next_to_nothing(connection: Any) -> None:
    async with counted(connection) as touched:
        assert await claim(connection, "aside") == []
    assert touched.walked() == []
    assert touched.all_rows() <= 20


@pytest.mark.parametrize("queue", ["hot", "wide", "open"])
@pytest.mark.parametrize(
    "verdict",
    [Done(), Retry(1.0, "boom"), Bury("hopeless"), Release()],
    ids=lambda v: type(v).__name__,
)
async def test_a_settle_costs_a_few_rows_a_lane(connection: Any, queue: str, verdict: Any) -> None:
    async with counted(connection) as both:
        claims = await claim(connection, queue, 20)
        async with counted(connection) as touched:
            settlements = [verdicts(one, *[verdict] * len(one.jobs)) for one in claims]
            if not isinstance(verdict, Done):
                settlements = [
                    verdicts(one, verdict, *[Release()] * (len(one.jobs) - 1)) for one in claims
                ]
            await settle(connection, check_settlements(settlements, "w"), None)
    assert both.walked() == []
    assert touched.walked() == []
    assert touched.rows("job") <= 300
    assert touched.rows("lane") <= 300
    assert touched.all_rows() <= 1000


async def test_a_settle_looks_at_no_job_that_waits_for_another_one(connection: Any) -> None:
    """20,000 jobs wait for one that is not settled here, and PostgreSQL knows how many they are."""
    async with counted(connection):
        await connection.execute(
            "update inturn.waits set on_job = (select id from inturn.parked order by id limit 1)"
        )
        await connection.execute("analyze inturn.waits")
        claims = await claim(connection, "wide", 20)
        async with counted(connection) as touched:
            settling = check_settlements([Settlement.done(one) for one in claims], "w")
            await settle(connection, settling, None)
    assert touched.rows("waits") + touched.rows("blocked") <= 300


async def test_an_extend_costs_a_row_a_lease(connection: Any) -> None:
    async with counted(connection):
        claims = await claim(connection, "wide", 100)
        async with counted(connection) as touched:
            leases = [one.lease for one in claims]
            assert await extend(connection, leases, 30.0, None) == ([], [])
    assert touched.walked() == []
    assert touched.all_rows() <= 300


@pytest.mark.parametrize("key", ["hot", "new", None])
@pytest.mark.parametrize("number", [1, 10, 100])
async def test_an_enqueue_costs_a_few_rows_a_lane(
    connection: Any, key: str | None, number: int
) -> None:
    jobs = [NewJob(kind="k", queue="hot", key=key) for _ in range(number)]
    async with counted(connection) as touched:
        assert len(await enqueue(connection, jobs, None)) == number
    assert touched.walked() == []
    assert touched.rows("lane") <= 20
    assert touched.all_rows() <= 100


async def test_an_enqueue_with_everything_finds_it_by_index(connection: Any) -> None:
    """A known dedupe key, a new one, a dependency in the log, a delay."""
    logged: UUID = await connection.fetchval(
        "select j.id from inturn.job j join inturn.lane l on l.id = j.lane "
        "where l.queue = 'hot' and j.position = 250000"
    )
    first = NewJob(kind="k", queue="aside", key="a", dedupe="one")
    batch = [
        NewJob(kind="k", queue="aside", key="a", dedupe="one"),
        NewJob(kind="k", queue="aside", key="a", dedupe="two"),
        NewJob(kind="k", queue="aside", key="b", after=frozenset({logged})),
        NewJob(kind="k", queue="aside", key="c", delay_seconds=5.0),
    ]
    async with counted(connection):
        await enqueue(connection, [first], None)
        async with counted(connection) as touched:
            tickets = await enqueue(connection, batch, None)
    assert [ticket.duplicate for ticket in tickets] == [True, False, False, False]
    assert touched.walked() == []
    assert touched.all_rows() <= 100


async def test_an_enqueue_to_a_bounded_lane_does_not_count_its_jobs(connection: Any) -> None:
    async with counted(connection):
        await connection.execute(
            "update inturn.queue set lane_depth_max = 1000000 where name = 'hot'"
        )
        async with counted(connection) as touched:
            await enqueue(connection, [NewJob(kind="k", queue="hot", key="hot")], None)
    assert touched.walked() == []
    assert touched.all_rows() <= 100


async def test_a_reclaim_finds_the_leases_that_ran_out(connection: Any) -> None:
    async with counted(connection):
        await connection.execute(
            "update inturn.lease set until = now() - interval '1 second' where token <= 5"
        )
        async with counted(connection) as touched:
            row = await connection.fetchrow(query("reclaim"), 100, None, None)
    assert (row["leases"], row["suspects"]) == (5, 5)
    assert touched.walked() == []
    assert touched.rows("lane") <= 1000
    assert touched.all_rows() <= 2000


async def test_the_sweep_reads_next_to_nothing(connection: Any) -> None:
    """Every worker calls it every few seconds."""
    async with counted(connection) as touched:
        await connection.execute(query("sweep"), None, 1)
    assert touched.all_rows() <= FEW


async def test_the_sweep_folds_what_settles_leave_so_that_stats_read_a_row_a_minute(
    connection: Any,
) -> None:
    async with counted(connection):
        await connection.execute(
            "insert into inturn.stat select 'wide', 'k', date_trunc('minute', now(), 'UTC'), "
            "1, 0, 0, 0, 0.1, '{1,0}' from generate_series(1, 10000)"
        )
        await connection.execute(query("sweep"), None, 1)
        async with counted(connection) as touched:
            [row] = await connection.fetch(query("stats"), "wide", datetime.now(UTC))
    assert (row["done"], row["durations"]) == (10_000, [10_000, 0])
    assert touched.scans["stat"] == 1
    assert touched.fetched["stat"] <= FEW


async def test_a_gate_is_advanced_by_a_look_at_a_thousand_lanes(connection: Any) -> None:
    async with counted(connection) as touched:
        row = await connection.fetchrow(called("select * from inturn.advance_gate('wide')"))
    assert not row["advanced"]
    assert touched.walked() == []
    assert touched.all_rows() <= 10_000


async def test_an_enqueue_to_a_bounded_queue_counts_its_lanes_once_a_second(
    connection: Any,
) -> None:
    async with counted(connection):
        await connection.execute("update inturn.queue set depth_max = 10000000 where name = 'wide'")
        await enqueue(connection, [NewJob(kind="k", queue="wide", key="key 7")], None)
        async with counted(connection) as touched:
            await enqueue(connection, [NewJob(kind="k", queue="wide", key="key 7")], None)
    assert touched.walked() == []
    assert touched.all_rows() <= 2_100


async def test_fresh_waits_are_looked_at_in_time_that_grows_with_their_number(
    connection: Any,
) -> None:
    async with counted(connection):
        await connection.execute(f"update inturn.waits set fresh = true where job in ({BLOCKED})")
        async with counted(connection) as touched:
            assert await connection.fetchval(called("select inturn.recheck(1000, now())")) == 1000
    assert touched.walked() == []
    assert touched.all_rows() <= 45_000  # 39,000, and rows that a vacuum moved


async def test_lanes_that_sleep_and_jobs_that_are_due_are_found_by_index(connection: Any) -> None:
    async with counted(connection):
        await connection.execute(
            "update inturn.lane set ready_at = now() - interval '1 second' where id in (select id "
            "from inturn.lane where queue = 'wide' and ready_at is not null limit 5)"
        )
        await connection.execute(
            "update inturn.parked set run_at = now() - interval '1 second' where id in (select id "
            "from inturn.parked where queue = 'aside' order by id limit 10)"
        )
        async with counted(connection) as touched:
            assert count(await claim(connection, "wide", 20)) == 20
            assert count(await claim(connection, "aside", 20)) == 10
    assert touched.walked() == []
    assert touched.rows("lane") <= 400
    assert touched.rows("parked") <= 400


async def test_when_the_next_job_is_due_is_read_from_the_ends_of_indexes(connection: Any) -> None:
    """Every worker that waits asks for it: 2,500 lanes sleep and 20,000 jobs are parked."""
    async with counted(connection) as touched:
        known = [datetime(2000, 1, 1, tzinfo=UTC)] * 2
        row = await connection.fetchrow(query("next_due"), ["wide", "aside"], known)
    assert row["due"] > row["now"]
    assert touched.walked() == []
    assert touched.rows("lane") <= 20
    assert touched.rows("parked") <= 20


async def test_a_job_and_its_place_are_found_by_index(connection: Any) -> None:
    [id, now] = await connection.fetchrow(
        "select j.id, now() from inturn.job j join inturn.lane l on l.id = j.lane "
        "where l.queue = 'hot' and j.position = 400000"
    )
    async with counted(connection) as touched:
        rows = await connection.fetch(query("job_views"), [id], now)
    assert [row["ahead"] for row in rows] == [399_999]
    assert touched.walked() == []
    assert touched.all_rows() <= 30


@pytest_asyncio.fixture
async def store(backlog: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(backlog)
    await store.open()
    yield store
    await store.close()


async def test_depth_and_age_are_read_from_lanes_and_never_by_counting_jobs(
    connection: Any, store: PostgresStore
) -> None:
    now = await store.now()
    async with counted(connection) as touched:
        await connection.fetch(query("queues"), now, [])
    assert touched.seq_scans["job"] == 0
    assert touched.rows("job") <= 10_000  # one look a lane whose head is not waiting, at most
    assert touched.rows("lane") <= 120_000  # each once
    statuses = {status.name: status for status in await store.queues()}
    assert statuses["hot"].waiting == 500_000
    assert statuses["wide"].waiting == 400_000 - 2_500 - 2_500
    assert statuses["wide"].running == 2_500
    assert statuses["open"].waiting == 100_000


async def test_what_a_person_reads_touches_little_of_the_log(
    connection: Any, store: PostgresStore
) -> None:
    """A page of it at most; a list of one key's jobs looks at every lane of the queue."""
    now = await store.now()
    [first, *_] = (await store.jobs(queue="hot", rows_max=10)).rows
    job = first.job.id
    reading: dict[str, tuple[Callable[[], Awaitable[object]], int, int]] = {
        "job": (lambda: reads.job(connection, job, now), 20, 20),
        "explain": (lambda: reads.explain(connection, job, now), 20, 100),
        "jobs": (lambda: reads.jobs(connection, [None], Asked(), now), 200, 50_000),
        "jobs of a key": (
            lambda: reads.jobs(connection, [None], Asked("wide", key="key 90000"), now),
            15_000,
            400_000,
        ),
        "lanes": (lambda: status.lanes(connection, "wide"), 0, 400),
        "lane": (lambda: status.lanes(connection, "wide", key="key 90000"), 0, 20),
        "dead letters": (lambda: reads.dead_letters(connection, Asked()), 0, 15_000),
        "dead letters of a queue": (
            lambda: reads.dead_letters(connection, Asked("aside")),
            0,
            200,
        ),
    }
    for name, (read, log_rows_max, rows_max) in reading.items():
        async with counted(connection, isolation="repeatable_read") as touched:
            await read()
        assert touched.seq_scans["job"] == 0, name
        assert touched.rows("job") <= log_rows_max, name
        assert touched.all_rows() <= rows_max, name


async def test_names_are_compared_byte_by_byte_in_every_index(connection: Any) -> None:
    """A database's own collation may change under it, and sorts otherwise than SQLite."""
    names = await connection.fetch(
        """
        select a.attrelid::regclass::text as index, a.attname as column, c.collname as collation
        from pg_attribute a
        join pg_class k on k.oid = a.attrelid and k.relkind = 'i'
        join pg_collation c on c.oid = a.attcollation
        where k.relnamespace = 'inturn'::regnamespace
        """
    )
    assert len(names) >= 10
    assert [tuple(name) for name in names if name["collation"] != "C"] == []
