"""Explain: one honest sentence about why a job is where it is."""

from __future__ import annotations

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.model.worker import WorkerView
from inturn.store.store import Store
from tests.contract.support import (
    bring_to,
    bury,
    claim,
    claim_one,
    enqueue,
    fail,
    job,
    jobs,
    settle,
)


async def says(store: Store, job: object, *words: object) -> None:
    """The sentence is one line, whole, and holds each of the words."""
    sentence = await store.explain(job)  # type: ignore[arg-type]
    assert "\n" not in sentence
    assert "None" not in sentence
    assert sentence.rstrip().endswith((".", "…"))
    for word in words:
        assert str(word) in sentence, f"{word!r} is not in {sentence!r}"


async def test_every_state_is_explained(store: Store) -> None:
    for key in (None, "a"):
        for wanted in JobState:
            await says(
                store, await bring_to(store, wanted, queue=f"{wanted} {key or 'plain'}", key=key)
            )


async def test_a_job_in_line_says_how_many_are_ahead(store: Store) -> None:
    made = await enqueue(store, *jobs(8, key="customer-7"))
    await says(store, made[7], "7", "customer-7")


async def test_a_job_behind_a_leased_head_names_the_worker_or_the_head(store: Store) -> None:
    first, second = await enqueue(store, *jobs(2, key="a"))
    await claim_one(store, worker="worker-17")
    sentence = await store.explain(second)
    assert "worker-17" in sentence or str(first) in sentence


async def test_a_job_behind_a_sleeping_head_names_it(store: Store) -> None:
    first, second = await enqueue(store, *jobs(2, key="a"))
    await settle(store, fail(await claim_one(store), delay=60))
    await says(store, second, first)


async def test_a_retrying_job_says_when_and_what_went_wrong(
    store: Store, clock: ManualClock
) -> None:
    for key in (None, "a"):
        [made] = await enqueue(store, job(key=key))
        await settle(store, fail(await claim_one(store), delay=3_600, error="no route to host"))
        await says(store, made, "01:00:00", "no route to host")


async def test_a_blocked_job_names_what_it_waits_for(store: Store) -> None:
    first, second = await enqueue(store, *jobs(2))
    [made] = await enqueue(store, job(after=frozenset({first, second})))
    await says(store, made, first, second)


async def test_a_job_of_a_round_that_is_not_open_says_so(store: Store) -> None:
    for key in (None, "a"):
        [made] = await enqueue(store, job(key=key, round=41))
        await says(store, made, "41", "gate")


async def test_a_job_in_a_paused_queue_or_lane_says_who_paused_it(store: Store) -> None:
    keyed, unkeyed = await enqueue(store, job(key="a"), job())
    await store.pause("default", key="a", by="ann")
    await says(store, keyed, "paused", "ann")
    await store.resume("default", key="a")
    await store.pause("default", by="ben")
    await says(store, keyed, "paused", "ben")
    await says(store, unkeyed, "paused", "ben")


async def test_a_job_in_a_halted_lane_names_the_dead_head(store: Store) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    first, second = await enqueue(store, *jobs(2, key="a"))
    await settle(store, bury(await claim_one(store), "unknown SKU"))
    await says(store, second, "halted", first)
    await says(store, first, "unknown SKU")
    assert "paused" not in await store.explain(second)
    await store.pause("default", key="a", by="ann")
    await says(store, second, "halted", first, "besides, lane 'a' was paused by ann")
    await store.pause("default", by="ben")
    await says(store, second, "halted", first, "besides, queue 'default' was paused by ben")


async def test_a_dead_and_a_cancelled_job_say_why(store: Store) -> None:
    [dead] = await enqueue(store, job())
    await settle(store, bury(await claim_one(store), "unknown SKU"))
    await says(store, dead, "dead", "unknown SKU")
    [cancelled] = await enqueue(store, job())
    await store.cancel(cancelled, by="ann")
    await says(store, cancelled, "cancelled", "ann")


async def test_a_suspect_says_that_it_will_run_alone(store: Store, clock: ManualClock) -> None:
    for key in (None, "a"):
        [made] = await enqueue(store, job(key=key))
        await claim(store)
        clock.advance(31)
        await store.reclaim()
        await store.beat(
            WorkerView(id="w1", host="h", pid=1, version="v", queues=("default",), kinds=("k",))
        )
        await says(store, made, "it will run alone, because its worker was lost while running it.")
        await store.cancel(made, by="ann")


async def live_worker(store: Store) -> None:
    """Let a worker be heard of that takes everything."""
    await store.beat(WorkerView(id="w1", host="h", pid=1, version="v", queues=("default",)))


async def test_a_job_behind_a_head_whose_lease_ran_out_says_so(
    store: Store, clock: ManualClock
) -> None:
    first, second = await enqueue(store, *jobs(2, key="a"))
    await claim_one(store, worker="worker-17", lease_seconds=30)
    assert "ran out" not in await store.explain(second)
    clock.advance(31)
    await says(store, second, first, "worker-17, whose lease ran out")


async def test_a_job_whose_kind_no_live_worker_takes_says_so(store: Store) -> None:
    [made] = await enqueue(store, job(kind="mail"))
    await store.beat(
        WorkerView(id="w1", host="h", pid=1, version="v", queues=("default",), kinds=("k",))
    )
    await says(store, made, "no live worker takes kind 'mail' of queue 'default': start one")
    await live_worker(store)
    assert "no live worker" not in await store.explain(made)
