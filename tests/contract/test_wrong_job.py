"""A settlement that carries a job of another lease: refused, and nothing of the call is written."""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import LeaseLost, WrongJob
from inturn.model.job import JobState
from inturn.model.lease import Claim
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.protocol import Store
from tests.contract.support import (
    claim,
    done,
    enqueue,
    fail,
    ids,
    job,
    settle,
    states,
    stored,
)

PLACES = pytest.mark.parametrize("place", ["open", "keyed", "parked"])
SAID: tuple[Verdict, ...] = (Done('"mine"'), Retry(1.0, "boom"), Bury("hopeless"), Release())


@PLACES
@pytest.mark.parametrize("said", SAID, ids=lambda said: type(said).__name__.lower())
async def test_a_job_of_another_lease_is_refused(
    store: Store, clock: ManualClock, place: str, said: Verdict
) -> None:
    one, two = await two_leases(store, clock, place)
    before = await stored(store)
    with pytest.raises(WrongJob, match=str(two.jobs[0].id)) as refused:
        await settle(store, [Settlement(one.lease, [Outcome(two.jobs[0], said)])])
    assert (refused.value.token, refused.value.job) == (one.lease.token, two.jobs[0].id)
    assert await stored(store) == before
    assert await states(store, ids([one, two])) == [JobState.RUNNING] * 2
    await settle(store, done([one, two]))
    assert [await store.result(id) for id in ids([one, two])] == [None, None]


@PLACES
async def test_what_was_said_with_it_is_not_written_either(
    store: Store, clock: ManualClock, place: str
) -> None:
    one, two = await two_leases(store, clock, place)
    good = Settlement(two.lease, [Outcome(two.jobs[0], Done("1"))])
    wrong = Settlement(one.lease, [Outcome(two.jobs[0], Done("2"))])
    with pytest.raises(WrongJob):
        await settle(store, [good, wrong])
    assert await states(store, ids([one, two])) == [JobState.RUNNING] * 2
    assert await store.result(two.jobs[0].id) is None


async def test_a_lease_that_is_gone_is_said_before_a_job_that_is_wrong(
    store: Store, clock: ManualClock
) -> None:
    one, two = await two_leases(store, clock, "open")
    await settle(store, done([one]))
    with pytest.raises(LeaseLost):
        await settle(store, [Settlement(one.lease, [Outcome(two.jobs[0], Done("2"))])])


async def two_leases(store: Store, clock: ManualClock, place: str) -> tuple[Claim, Claim]:
    """Lease two jobs at the same position of two lanes, each under a token of its own."""
    claims = []
    for name in ("a", "b"):
        await enqueue(store, job(name, key=name if place == "keyed" else None))
        claims += await claim(store)
    if place == "parked":
        for one in claims:
            await settle(store, fail(one, delay=1.0))
        clock.advance(1.0)
        claims = [*await claim(store, 1), *await claim(store, 1)]
        assert [one.lease.lane for one in claims] == [None, None]
    one, two = claims
    assert one.lease.token != two.lease.token
    assert one.jobs[0].position == two.jobs[0].position
    return one, two
