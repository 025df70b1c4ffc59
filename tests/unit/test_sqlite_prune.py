"""Pruning on SQLite: in slices, and without forgetting what comes back from the dead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState, NewJob
from inturn.model.lane import QueueSettings
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done
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


async def drain(store: SqliteStore, queue: str = "default") -> None:
    while claims := await store.claim(queue, jobs_max=100, worker="w"):
        await store.settle([Settlement.done(claim) for claim in claims], worker="w")


@pytest.mark.parametrize("lanes", [1, 100])
@pytest.mark.parametrize(("rows", "size"), [(7, 100), (100, 3)])
async def test_history_goes_in_slices_and_whole(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, rows: int, size: int, lanes: int
) -> None:
    monkeypatch.setattr(prune, "ROWS_TOGETHER", rows)
    monkeypatch.setattr(prune, "BYTES_TOGETHER", size)
    monkeypatch.setattr(prune, "LANES_TOGETHER", lanes)
    await store.enqueue([NewJob(kind="k", key=key) for key in ("a", "b", None) for _ in range(10)])
    late = NewJob(kind="k", queue="other")
    await store.configure("other", QueueSettings(keep_done_seconds=1))
    [kept] = await store.enqueue([late])
    await drain(store)
    await drain(store, "other")
    pruned = await store.prune()
    assert (pruned.jobs, pruned.lanes) == (30, 3)
    assert (await store.job(kept.id)).state is JobState.DONE
    assert (await store.prune()).jobs == 0


@pytest.mark.parametrize("rows", [1, 100])
async def test_what_has_expired_goes_in_slices_and_whole(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(prune, "ROWS_TOGETHER", rows)
    monkeypatch.setattr(prune, "BYTES_TOGETHER", 3)
    made = await store.enqueue(
        [NewJob(kind="k", dedupe=str(number), dedupe_seconds=0.001) for number in range(9)]
    )
    for ticket in made[:4]:
        await store.cancel(ticket.id, by="ann")
    for claim in await store.claim("default", jobs_max=9, worker="w"):
        said = [Outcome(job, Done("[1]", result_seconds=0.001)) for job in claim.jobs]
        await store.settle([Settlement(claim.lease, said)], worker="w")
    await store.prune()  # a cancelled job stands in the log until that is pruned
    await store.prune()
    clock = store._clock
    assert isinstance(clock, ManualClock)
    clock.advance(1)
    pruned = await store.prune()
    assert (pruned.results, pruned.dedupes) == (5, 9)


async def test_a_slice_ends_where_it_holds_bytes_enough(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = f'"{"x" * 998}"'
    await store.enqueue([NewJob(kind="k", payload=payload) for _ in range(20)])
    await drain(store)
    monkeypatch.setattr(prune, "BYTES_TOGETHER", 5_000)
    assert await store._write(partial(prune.mark, after=0))
    taken, after = await store._write(partial(prune.prune_jobs, after=0))
    assert (taken["jobs"], after) == (5, 0)


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
