"""Where a job without a key goes: to a lane of its sort whose tail nobody holds."""

from __future__ import annotations

from typing import Any

from inturn.model.job import Ticket
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import drain, job, jobs, quickly

LONG_LINE = 1_000  # a line of so many is shared out over several lanes


async def placed(store: PostgresStore, **options: Any) -> Ticket:
    [ticket] = await store.enqueue([job(**options)])
    return ticket


async def test_a_long_line_is_shared_out(store: PostgresStore) -> None:
    first = await placed(store)
    await store.enqueue(jobs(LONG_LINE))
    assert (await placed(store)).lane != first.lane
    assert (await placed(store, kind="other")).lane != first.lane


async def test_a_lane_in_the_hands_of_an_open_producer_is_not_waited_for(
    store: PostgresStore, producer: Opening
) -> None:
    first = await placed(store)
    open_one = await producer("read_committed")
    await open_one.enqueue(*jobs(1))
    second = await quickly(placed(store))
    assert second.lane != first.lane
    await open_one.commit()
    assert len(await drain(store)) == 3
