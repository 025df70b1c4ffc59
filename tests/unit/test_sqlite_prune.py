"""Pruning on SQLite: in slices, and without forgetting what comes back from the dead."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState, NewJob
from inturn.model.lane import QueueSettings
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury
from inturn.store.sqlite import prune
from inturn.store.sqlite.store import SqliteStore


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    store = SqliteStore(":memory:", clock=ManualClock())
    await store.open()
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    yield store
    assert await store.check() == []
    await store.close()


async def drain(store: SqliteStore) -> None:
    while claims := await store.claim("default", jobs_max=100, worker="w"):
        await store.settle([Settlement.done(claim) for claim in claims], worker="w")


@pytest.mark.parametrize("together", [1, 7, 10, 25])
async def test_history_goes_in_slices_and_whole(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(prune, "JOBS_TOGETHER", together)
    await store.enqueue([NewJob(kind="k", key=key) for key in ("a", "b", None) for _ in range(10)])
    await drain(store)
    pruned = await store.prune()
    assert (pruned.jobs, pruned.lanes) == (30, 3)
    assert (await store.prune()).jobs == 0


async def test_a_dead_letter_whose_history_is_gone_can_be_read_when_it_is_done(
    store: SqliteStore,
) -> None:
    [ticket] = await store.enqueue([NewJob(kind="k")])
    [claimed] = await store.claim("default", jobs_max=1, worker="w")
    await store.settle(
        [Settlement(claimed.lease, [Outcome(claimed.jobs[0], Bury("b"))])], worker="w"
    )
    assert (await store.prune()).lanes == 1
    assert await store.dead_retry([ticket.id]) == [ticket.id]
    assert (await store.job(ticket.id)).state is JobState.WAITING
    await drain(store)
    assert (await store.job(ticket.id)).state is JobState.DONE
