"""Histories of errors: the last few. How many there were before, the attempts say."""

from __future__ import annotations

import pytest

from inturn.model import bounds
from inturn.model.clock import ManualClock
from inturn.policy.verdict import Bury, Retry
from inturn.store.store import Store
from tests.contract.support import claim_one, enqueue, job, settle, verdicts

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
ALL = bounds.ERRORS_MAX


@KEYS
@pytest.mark.parametrize("more", [0, 25])
async def test_a_longer_one_keeps_its_last(
    store: Store, clock: ManualClock, key: str | None, more: int
) -> None:
    [made] = await enqueue(store, job(key=key))
    await fail_often(store, clock, ALL + more)
    errors = (await store.job(made)).errors
    assert [error.error for error in errors] == [f"boom {n}" for n in range(more, ALL + more)]


@KEYS
async def test_a_traceback_is_kept_of_the_first_and_the_last(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key))
    await fail_often(store, clock, ALL - 1)
    claimed = await claim_one(store)
    await settle(store, [verdicts(claimed, Bury("hopeless", traceback="in pay"))])
    view = await store.job(made)
    [letter] = (await store.dead_letters()).rows
    for errors in (view.errors, letter.errors):
        kept = {place: error.traceback for place, error in enumerate(errors) if error.traceback}
        assert kept == {0: "in attempt 0", ALL - 1: "in pay"}


async def fail_often(store: Store, clock: ManualClock, times: int) -> None:
    """Let the one job fail, through no fault of its own, again and again."""
    for number in range(times):
        claimed = await claim_one(store)
        failed = Retry(1.0, f"boom {number}", False, f"in attempt {number}")
        await settle(store, [verdicts(claimed, failed)])
        clock.advance(1)
