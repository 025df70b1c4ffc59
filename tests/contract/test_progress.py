"""Progress: how far a running job is, fenced by its lease, and gone when it runs no more."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.model import bounds
from inturn.model.clock import ManualClock
from inturn.model.errors import BadInput, LeaseLost, OutOfBounds
from inturn.model.job import Progress
from inturn.store.store import Store
from tests.contract.support import claim_one, done, enqueue, fail, job, raw, settle

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


async def said_of(store: Store, made: Any) -> Progress | None:
    shown = (await store.job(made)).progress
    [listed] = (await store.jobs()).rows
    assert listed.progress == shown
    return shown


@KEYS
@pytest.mark.parametrize("is_retried", [False, True], ids=["first", "retried"])
async def test_what_was_said_last_is_shown_while_the_job_runs(
    store: Store, clock: ManualClock, key: str | None, is_retried: bool
) -> None:
    [made] = await enqueue(store, job(key=key))
    if is_retried:
        await settle(store, fail(await claim_one(store), delay=0))
    claimed = await claim_one(store)
    assert await said_of(store, made) is None
    await store.progress(claimed.lease, made, fraction=0.25, note="copying")
    clock.advance(1)
    await store.progress(claimed.lease, made, fraction=0.5)
    assert await said_of(store, made) == Progress(fraction=0.5, note="", at=clock.now())
    await settle(store, done([claimed]))
    assert await said_of(store, made) is None


@KEYS
async def test_a_lost_lease_says_nothing_more(
    store: Store, other_store: Store, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key))
    claimed = await claim_one(store)
    await store.progress(claimed.lease, made, fraction=0.9, note="nearly")
    clock.advance(31)
    await other_store.reclaim()
    assert await said_of(store, made) is None
    with pytest.raises(LeaseLost):
        await store.progress(claimed.lease, made, fraction=1)
    fresh = await claim_one(other_store)
    assert await said_of(store, made) is None, "what an earlier attempt said is not of this one"
    with pytest.raises(LeaseLost):
        await store.progress(claimed.lease, made, fraction=1)
    await other_store.progress(fresh.lease, made, fraction=0.1, note="again")
    with pytest.raises(LeaseLost):
        await store.progress(claimed.lease, made, fraction=1)
    said = await said_of(store, made)
    assert said is not None
    assert (said.fraction, said.note) == (0.1, "again")


async def test_what_was_said_of_jobs_that_run_no_more_is_pruned(store: Store) -> None:
    [first] = await enqueue(store, job(key="a"))
    [second] = await enqueue(store, job(key="b"))
    ended, running = await claim_one(store), await claim_one(store)
    await store.progress(ended.lease, first, fraction=0.5)
    await store.progress(running.lease, second, fraction=0.5)
    await settle(store, done([ended]))
    await store.prune()
    assert len(await raw(store, "select job from @progress")) == 1
    shown = (await store.job(second)).progress
    assert shown is not None
    assert shown.fraction == 0.5


async def test_what_does_not_say_how_far_a_job_is_is_refused(store: Store) -> None:
    [made] = await enqueue(store, job())
    claimed = await claim_one(store)
    wrongs: list[tuple[Any, Any, Any, Any]] = [
        (claimed.lease, made, 1.1, ""),
        (claimed.lease, made, -0.1, ""),
        (claimed.lease, made, float("nan"), ""),
        (claimed.lease, made, "half", ""),
        (claimed.lease, made, 0.5, "x" * (bounds.NOTE_CHARS_MAX + 1)),
        (claimed.lease, made, 0.5, None),
        (claimed.lease, "7", 0.5, ""),
        (None, made, 0.5, ""),
    ]
    for lease, one, fraction, note in wrongs:
        with pytest.raises((BadInput, OutOfBounds)):
            await store.progress(lease, one, fraction=fraction, note=note)
    assert await said_of(store, made) is None
