"""Results: what a handler returned is kept as it was said, for as long as was said."""

from __future__ import annotations

import pytest

from inturn.model import bounds
from inturn.model.clock import ManualClock
from inturn.model.errors import (
    InvalidPayload,
    OutOfBounds,
    PayloadTooLarge,
    ResultLost,
)
from inturn.model.job import JobState
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Done
from inturn.store.store import Store
from tests.contract.support import (
    claim,
    claim_one,
    enqueue,
    job,
    jobs,
    settle,
    state,
    verdicts,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


@KEYS
@pytest.mark.parametrize("result", ["null", '{"b": 1.0, "a": 1e3}'])
async def test_a_result_is_kept_exactly_as_it_was_said(
    store: Store, other_store: Store, key: str | None, result: str
) -> None:
    [made] = await enqueue(store, job(key=key))
    assert await store.result(made) is None
    claimed = await claim_one(store)
    assert await store.result(made) is None
    await settle(store, [verdicts(claimed, Done(result))])
    assert await other_store.result(made) == result
    assert await state(store, made) is JobState.DONE


@KEYS
async def test_a_result_that_could_not_be_kept_is_said_to_be_lost(
    store: Store, other_store: Store, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key))
    await settle(store, [verdicts(await claim_one(store), Done(None, 60, "no JSON\x00"))])
    with pytest.raises(ResultLost) as lost:
        await other_store.result(made)
    assert (lost.value.job, lost.value.reason) == (made, "no JSON\\0")
    assert await state(store, made) is JobState.DONE
    clock.advance(61)
    assert await store.result(made) is None


@pytest.mark.parametrize("seconds", [0.5, None, 100_000.0])
async def test_a_result_is_kept_for_as_long_as_was_said(
    store: Store, clock: ManualClock, seconds: float | None
) -> None:
    [made] = await enqueue(store, job())
    await settle(store, [verdicts(await claim_one(store), Done("42", seconds))])
    kept = bounds.RESULT_SECONDS_DEFAULT if seconds is None else seconds
    clock.advance(kept - 0.001)
    await store.prune()
    assert await store.result(made) == "42"
    clock.advance(0.002)
    pruned = await store.prune()
    assert pruned.results == 1
    assert await store.result(made) is None


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Done("not json"), InvalidPayload),
        (Done('"' + "x" * bounds.PAYLOAD_BYTES_MAX + '"'), PayloadTooLarge),
        (Done("1", float("nan")), OutOfBounds),
    ],
    ids=["text", "large", "seconds"],
)
async def test_a_result_that_cannot_be_kept_is_refused_and_settles_nothing(
    store: Store, verdict: Done, error: type[Exception]
) -> None:
    made = await enqueue(store, *jobs(2))
    [claimed] = await claim(store)
    with pytest.raises(error):
        await settle(store, [verdicts(claimed, Done(), verdict)])
    assert [await state(store, one) for one in made] == [JobState.RUNNING] * 2


@pytest.mark.parametrize("key", ["a", None], ids=["keyed", "unkeyed"])
async def test_more_results_than_one_call_carries_are_refused_and_settle_nothing(
    store: Store, key: str | None
) -> None:
    large = f'"{"x" * (bounds.RESULT_BYTES_MAX - 2)}"'
    most = bounds.SETTLE_CHARS_MAX // len(large)
    made = await enqueue(store, *jobs(most + 1, key=key))
    [claimed] = await claim(store)
    with pytest.raises(OutOfBounds, match="several calls"):
        await settle(store, [verdicts(claimed, *[Done(large)] * (most + 1))])
    assert await store.result(made[0]) is None
    await settle(store, [verdicts(claimed, *[Done(large)] * most)])
    assert await store.result(made[-2]) == large
    rest = Settlement(claimed.lease, [Outcome(claimed.jobs[-1], Done(large))])
    await settle(store, [rest])
    assert await store.check() == []
