"""A producer goes on in the open lane that it knows, unless that is not one for its job."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from inturn.model.job import Ticket
from inturn.store.postgres.open_lanes import SORTS_MAX, USES_MAX, OpenLanes, sort_of
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import ask, claim, drain, ids, job, jobs, quickly

LONG_LINE = 1_000  # a line of so many is shared out over several lanes


async def placed(store: PostgresStore, **options: Any) -> Ticket:
    [ticket] = await store.enqueue([job(**options)])
    return ticket


async def test_jobs_of_a_sort_go_on_in_the_lane_that_is_known(store: PostgresStore) -> None:
    first = await placed(store)
    await store.enqueue(jobs(LONG_LINE))
    assert (await placed(store)).lane == first.lane  # a look around would take a new one
    assert (await placed(store, kind="other")).lane != first.lane
    assert (await placed(store, priority=1)).lane != first.lane
    assert (await placed(store, queue="other")).lane != first.lane


async def test_a_long_line_is_shared_out_after_a_while(store: PostgresStore) -> None:
    first = await placed(store)
    await store.enqueue(jobs(LONG_LINE))
    lanes = [(await placed(store)).lane for _ in range(USES_MAX + 2)]
    assert lanes[: USES_MAX - 1] == [first.lane] * (USES_MAX - 1)
    assert lanes[-1] != first.lane


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


@pytest.mark.parametrize("wrong", [{"kind": "other"}, {"priority": 3}, {"round": 1}])
async def test_a_lane_of_another_sort_is_refused(
    store: PostgresStore, wrong: dict[str, Any]
) -> None:
    """As when the database was put back to an older state under a producer that goes on."""
    lane = (await placed(store, **wrong)).lane
    last = "select last from inturn.tail where lane = $1"
    before = await ask(store, last, lane)
    with pytest.raises(asyncpg.SerializationError, match="is not for jobs of kind k"):
        await ask(
            store,
            "select inturn.accept_one(gen_random_uuid(), 'default', null, 'k', 'null', 0, 0, 3, "
            "null, null, $1)",
            lane,
        )
    assert await ask(store, last, lane) == before
    mislead(store, lane)
    right = await placed(store)
    assert right.lane != lane
    stored = (await store.job(right.id)).job
    assert (stored.kind, stored.priority, stored.round) == ("k", 0, 0)


async def test_a_lane_of_another_queue_a_key_or_none_is_passed_over(store: PostgresStore) -> None:
    keyed = (await placed(store, key="a")).lane
    elsewhere = (await placed(store, queue="other")).lane
    for lane in (keyed, elsewhere, 1_000_000):
        mislead(store, lane)
        assert (await placed(store)).lane not in (keyed, elsewhere, 1_000_000)
        await drain(store, "default")


async def test_what_goes_on_in_a_known_lane_wakes_it(store: PostgresStore) -> None:
    lane = (await placed(store)).lane
    await drain(store)
    await ask(store, "select inturn.rest(array[$1::bigint])", lane)
    again = await placed(store)
    assert again.lane == lane
    assert ids(await claim(store)) == [again.id]


@pytest.mark.parametrize(
    "other", [{"queue": "other"}, {"kind": "other"}, {"priority": 1}, {"round": 1}], ids=str
)
def test_a_lane_is_known_for_its_own_sort_only(other: dict[str, Any]) -> None:
    lanes = OpenLanes()
    lanes.learn(sort_of(job()), 7, 3)
    assert lanes.take(sort_of(job(**other))) == (None, 0)
    assert lanes.take(sort_of(job())) == (7, 3)


def test_a_lane_that_was_given_out_is_forgotten_until_it_is_learnt_again() -> None:
    """So that whatever goes wrong with it, the next try does without it."""
    lanes = OpenLanes()
    lanes.learn(sort_of(job()), 7, 0)
    assert lanes.take(sort_of(job())) == (7, 0)
    assert lanes.take(sort_of(job())) == (None, 0)
    lanes.learn(sort_of(job()), 7, 1)
    assert lanes.take(sort_of(job())) == (7, 1)


def test_sorts_without_end_are_not_kept() -> None:
    lanes = OpenLanes()
    for number in range(3 * SORTS_MAX):
        lanes.learn(sort_of(job(kind=f"k{number}")), number, 0)
    known = [lanes.take(sort_of(job(kind=f"k{number}")))[0] for number in range(3 * SORTS_MAX)]
    assert len([lane for lane in known if lane is not None]) <= SORTS_MAX
    assert known[-1] == 3 * SORTS_MAX - 1


def mislead(store: PostgresStore, lane: int | None) -> None:
    """Let a producer remember a lane for jobs that it is not for."""
    assert lane is not None
    store._producer._lanes.learn(sort_of(job()), lane, 0)
