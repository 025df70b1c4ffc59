"""Explain: one honest sentence about why a job is where it is."""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import UnknownJob
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.model.worker import WorkerView
from inturn.store.protocol import Store
from tests.contract.support import (
    NOWHERE,
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

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


async def says(store: Store, job: object, *words: object) -> None:
    """The sentence is one line, whole, and holds each of the words."""
    sentence = await store.explain(job)  # type: ignore[arg-type]
    assert "\n" not in sentence
    assert "None" not in sentence
    assert sentence.rstrip().endswith((".", "…"))
    for word in words:
        assert str(word) in sentence, f"{word!r} is not in {sentence!r}"


@KEYS
@pytest.mark.parametrize("wanted", list(JobState))
async def test_every_state_is_explained(store: Store, wanted: JobState, key: str | None) -> None:
    await says(store, await bring_to(store, wanted, key=key))


async def test_a_job_that_never_was_is_unknown(store: Store) -> None:
    with pytest.raises(UnknownJob, match=str(NOWHERE)):
        await store.explain(NOWHERE)


async def test_sentences_of_different_states_differ(store: Store) -> None:
    made = [await bring_to(store, one, queue=f"{one}") for one in JobState]
    assert len({await store.explain(one) for one in made}) == len(made)


async def test_a_running_job_names_its_worker(store: Store) -> None:
    [made] = await enqueue(store, job(key="a"))
    await claim_one(store, worker="worker-17")
    await says(store, made, "worker-17")


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


async def test_a_scheduled_job_says_when(store: Store) -> None:
    await says(store, *(await enqueue(store, job(delay_seconds=7_200))), "02:00:00")


async def test_a_blocked_job_names_what_it_waits_for(store: Store) -> None:
    first, second = await enqueue(store, *jobs(2))
    [made] = await enqueue(store, job(after=frozenset({first, second})))
    await says(store, made, first, second)


async def test_a_job_that_waits_for_a_dead_letter_says_so(store: Store) -> None:
    dead = await bring_to(store, JobState.DEAD)
    [made] = await enqueue(store, job(after=frozenset({dead})))
    await says(store, made, dead, "dead")


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


async def test_a_job_without_a_key_waits_for_none_of_those_before_it(store: Store) -> None:
    await live_worker(store)
    made = await enqueue(store, *jobs(3))
    await says(
        store, made[2], "will be claimed after 2 jobs of its kind, and waits for none of them."
    )


async def test_a_job_that_is_ready_is_not_said_to_be_the_next(store: Store) -> None:
    """Other lanes may stand before it, and later jobs of a higher priority come before it."""
    await live_worker(store)
    made = await enqueue(store, job(key="a"), job(key="b"), job())
    await enqueue(store, job(key="c", priority=9))
    for one in made:
        await says(store, one, "ready", "turn")
        assert "next" not in await store.explain(one)


@pytest.mark.parametrize("waits_to_retry", [False, True], ids=["running", "retrying"])
async def test_a_job_behind_a_head_says_what_else_holds_it(
    store: Store, waits_to_retry: bool
) -> None:
    first, second, third = await enqueue(store, *jobs(2, key="a"), job(key="a", round=41))
    claimed = await claim_one(store, worker="worker-17")
    if waits_to_retry:
        await settle(store, fail(claimed, delay=60))
    await says(store, third, first, "41", "gate")
    assert "gate" not in await store.explain(second)
    await store.pause("default", key="a", by="ann")
    await says(store, second, first, "paused", "ann")
    await store.pause("default", by="ben")
    await says(store, second, first, "paused", "ben")


async def test_a_blocked_job_says_what_else_holds_it(store: Store) -> None:
    [first] = await enqueue(store, job(queue="other"))
    waits = frozenset({first})
    await enqueue(store, job(key="a"))
    [keyed, gated, plain] = await enqueue(
        store, job(key="a", after=waits), job(round=41, after=waits), job(after=waits)
    )
    await says(store, gated, first, "41", "gate")
    await store.pause("default", key="a", by="ann")
    await says(store, keyed, first, "paused", "ann")
    assert "paused" not in await store.explain(plain)
    await store.pause("default", by="ben")
    await says(store, plain, first, "paused", "ben")


async def test_a_delayed_job_of_a_paused_lane_says_so(store: Store) -> None:
    await enqueue(store, job(key="a"))
    [made] = await enqueue(store, job(key="a", delay_seconds=60))
    await store.pause("default", key="a", by="ann")
    await says(store, made, "scheduled", "paused", "ann")


async def test_a_job_that_will_join_a_halted_lane_says_so_wherever_it_is(
    store: Store, clock: ManualClock
) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    [dead] = await enqueue(store, job(key="a"))
    await settle(store, bury(await claim_one(store), "unknown SKU"))
    [other] = await enqueue(store, job(queue="other"))
    [delayed, blocked, elsewhere] = await enqueue(
        store,
        job(key="a", delay_seconds=60),
        job(key="a", after=frozenset({other})),
        job(key="b", delay_seconds=60),
    )
    await says(store, delayed, "scheduled", "halted on", dead, "inturn lanes retry default a")
    await says(store, blocked, other, "halted on", dead)
    assert "halted" not in await store.explain(elsewhere)
    clock.advance(61)
    await live_worker(store)
    await says(store, delayed, "halted on", dead)
    assert "ready" not in await store.explain(delayed)


async def test_a_delayed_job_that_is_due_says_that_others_of_its_key_are_before_it(
    store: Store, clock: ManualClock
) -> None:
    await enqueue(store, job(key="a"))
    await claim_one(store, worker="worker-17")
    [late, free] = await enqueue(
        store, job(key="a", delay_seconds=1), job(key="b", delay_seconds=1)
    )
    clock.advance(2)
    await live_worker(store)
    await says(store, late, "due", "the end of lane 'a'")
    assert "ready" not in await store.explain(late)
    await says(store, free, "ready")


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


async def test_a_sentence_is_one_line_whatever_people_and_keys_are_called(store: Store) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    first, second = await enqueue(store, *jobs(2, key="it's\na \\ key"))
    await settle(store, bury(await claim_one(store), "unknown SKU"))
    await says(store, first, r"inturn lanes retry default $'it\'s\na \\ key'")
    await says(store, second, first)
    await store.pause("default", by="ann\nb")
    await says(store, second, "ann b")
