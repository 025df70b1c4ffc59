"""Bad input: refused with an error that names the thing, before anything is stored.

Promises P11 and P16 of ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inturn.model import bounds
from inturn.model.errors import (
    BadInput,
    DependencyCycle,
    InvalidName,
    InvalidPayload,
    OutOfBounds,
    PayloadTooLarge,
    UnknownDependency,
    UnknownJob,
)
from inturn.model.job import NewJob
from inturn.store.store import Store
from tests.contract.support import (
    NOWHERE,
    claim,
    enqueue,
    job,
    jobs,
    stored,
)

NAN, INFINITE = float("nan"), float("inf")
HUGE = '"' + "x" * bounds.PAYLOAD_BYTES_MAX + '"'

BAD_JOBS: dict[str, tuple[dict[str, Any], type[BadInput], str]] = {
    "payload-text": ({"payload": "not json"}, InvalidPayload, "payload"),
    "payload-empty": ({"payload": ""}, InvalidPayload, "payload"),
    "payload-half": ({"payload": '{"a": '}, InvalidPayload, "payload"),
    "payload-two": ({"payload": "1 2"}, InvalidPayload, "payload"),
    "payload-single-quotes": ({"payload": "{'a': 1}"}, InvalidPayload, "payload"),
    "payload-nan": ({"payload": "NaN"}, InvalidPayload, "NaN"),
    "payload-nan-inside": ({"payload": '{"a": [NaN]}'}, InvalidPayload, "NaN"),
    "payload-infinity": ({"payload": "[-Infinity]"}, InvalidPayload, "Infinity"),
    "payload-surrogate": ({"payload": '"\ud800"'}, InvalidPayload, "surrogate"),
    "payload-escaped-surrogate": ({"payload": '"\\ud800"'}, InvalidPayload, "payload"),
    "payload-nul": ({"payload": '"\\u0000"'}, InvalidPayload, "NUL"),
    "payload-nul-in-name": ({"payload": '{"a\\u0000": 1}'}, InvalidPayload, "NUL"),
    "payload-raw-nul": ({"payload": '"\x00"'}, InvalidPayload, "payload"),
    "payload-bytes": ({"payload": b"1"}, InvalidPayload, "payload"),
    "payload-dict": ({"payload": {"a": 1}}, InvalidPayload, "payload"),
    "payload-large": ({"payload": HUGE}, PayloadTooLarge, "payload"),
    "payload-number": ({"payload": '{"a": 1e400}'}, InvalidPayload, "too large for a double"),
    "payload-digits": ({"payload": "9" * 5_000}, InvalidPayload, "4,300 digits"),
    "payload-deep": ({"payload": "[" * 900 + "]" * 900}, InvalidPayload, "nested more than"),
    "queue-empty": ({"queue": ""}, InvalidName, "queue"),
    "queue-long": ({"queue": "q" * (bounds.QUEUE_CHARS_MAX + 1)}, InvalidName, "queue"),
    "queue-nul": ({"queue": "a\x00b"}, InvalidName, "queue"),
    "queue-surrogate": ({"queue": "a\ud800"}, InvalidName, "queue"),
    "queue-none": ({"queue": None}, InvalidName, "queue"),
    "key-empty": ({"key": ""}, InvalidName, "key"),
    "key-long": ({"key": "k" * (bounds.KEY_CHARS_MAX + 1)}, InvalidName, "key"),
    "key-nul": ({"key": "\x00"}, InvalidName, "key"),
    "key-surrogate": ({"key": "\udfff"}, InvalidName, "key"),
    "key-number": ({"key": 7}, InvalidName, "key"),
    "kind-empty": ({"kind": ""}, InvalidName, "kind"),
    "kind-long": ({"kind": "k" * (bounds.KIND_CHARS_MAX + 1)}, InvalidName, "kind"),
    "kind-nul": ({"kind": "a\x00"}, InvalidName, "kind"),
    "dedupe-empty": ({"dedupe": ""}, InvalidName, "dedupe"),
    "dedupe-long": ({"dedupe": "d" * (bounds.DEDUPE_CHARS_MAX + 1)}, InvalidName, "dedupe"),
    "dedupe-nul": ({"dedupe": "a\x00"}, InvalidName, "dedupe"),
    "dedupe-no-time": ({"dedupe": "d", "dedupe_seconds": 0}, OutOfBounds, "dedupe_seconds"),
    "dedupe-for-ever": ({"dedupe": "d", "dedupe_seconds": 1e12}, OutOfBounds, "dedupe_seconds"),
    "delay-negative": ({"delay_seconds": -1.0}, OutOfBounds, "delay_seconds"),
    "delay-nan": ({"delay_seconds": NAN}, OutOfBounds, "delay_seconds"),
    "delay-infinite": ({"delay_seconds": INFINITE}, OutOfBounds, "delay_seconds"),
    "delay-absurd": ({"delay_seconds": 1e18}, OutOfBounds, "delay_seconds"),
    "delay-endless": (
        {"delay_seconds": 10**400},
        OutOfBounds,
        "delay_seconds is a whole number of",
    ),
    "delay-list": ({"delay_seconds": []}, OutOfBounds, "delay_seconds"),
    "delay-text": ({"delay_seconds": "5"}, OutOfBounds, "delay_seconds"),
    "attempts-none": ({"attempts_max": 0}, OutOfBounds, "attempts_max"),
    "attempts-negative": ({"attempts_max": -3}, OutOfBounds, "attempts_max"),
    "attempts-absurd": ({"attempts_max": 10**9}, OutOfBounds, "attempts_max"),
    "attempts-half": ({"attempts_max": 1.5}, OutOfBounds, "attempts_max"),
    "priority-low": ({"priority": -101}, OutOfBounds, "priority"),
    "priority-high": ({"priority": 10**20}, OutOfBounds, "priority"),
    "priority-endless": ({"priority": -(10**5_000)}, OutOfBounds, "priority"),
    "priority-true": ({"priority": True}, OutOfBounds, "priority"),
    "round-negative": ({"round": -1}, OutOfBounds, "round"),
    "round-absurd": ({"round": 2**40}, OutOfBounds, "round"),
    "round-and-delay": ({"round": 1, "delay_seconds": 1.0}, OutOfBounds, "round"),
    "timeout-none": ({"timeout_seconds": 0.0}, OutOfBounds, "timeout_seconds"),
    "timeout-negative": ({"timeout_seconds": -1.0}, OutOfBounds, "timeout_seconds"),
    "timeout-nan": ({"timeout_seconds": NAN}, OutOfBounds, "timeout_seconds"),
    "timeout-absurd": ({"timeout_seconds": 1e15}, OutOfBounds, "timeout_seconds"),
    "after-list": ({"after": [NOWHERE]}, BadInput, "after must be a set"),
    "after-none": ({"after": None}, BadInput, "after must be a set"),
    "after-text": ({"after": frozenset({str(NOWHERE)})}, BadInput, "after must be a UUID"),
    "id-text": ({"id": str(NOWHERE)}, BadInput, "id of a job must be a UUID"),
    "after-unknown": ({"after": frozenset({NOWHERE})}, UnknownDependency, str(NOWHERE)),
    "after-itself": ({"after": frozenset({NOWHERE}), "id": NOWHERE}, DependencyCycle, "circle"),
    "after-and-delay": (
        {"after": frozenset({NOWHERE}), "delay_seconds": 1.0},
        OutOfBounds,
        "after",
    ),
    "after-too-many": (
        {"after": frozenset(NewJob(kind="k").id for _ in range(bounds.AFTER_MAX + 1))},
        OutOfBounds,
        "waits for",
    ),
}


@pytest.mark.parametrize(("options", "error", "named"), list(BAD_JOBS.values()), ids=list(BAD_JOBS))
async def test_a_job_that_cannot_be_is_refused_with_its_whole_batch(
    store: Store, options: dict[str, Any], error: type[BadInput], named: str
) -> None:
    bad = NewJob(**{"kind": "k", **options})
    with pytest.raises(error, match=named):
        await store.enqueue([job(), bad, job(key="a")])
    assert set((await stored(store)).values()) == {0}
    with pytest.raises(error, match=named):
        await enqueue_in_a_transaction(store, bad)
    left = await stored(store)
    del left["queue"]  # PostgreSQL makes a new one apart from the transaction, with nothing in it
    assert set(left.values()) == {0}


async def test_a_batch_may_not_be_endless_or_repeat_an_id(store: Store) -> None:
    with pytest.raises(OutOfBounds, match="50,001"):
        await store.enqueue(jobs(bounds.ENQUEUE_JOBS_MAX + 1))
    twice = job()
    with pytest.raises(OutOfBounds, match="same id"):
        await store.enqueue([twice, job(), twice])
    assert set((await stored(store)).values()) == {0}


async def test_a_circle_of_jobs_is_refused(store: Store) -> None:
    one, two = job(), job()
    with pytest.raises(DependencyCycle, match=str(one.id)):
        await store.enqueue(
            [job(id=one.id, after=frozenset({two.id})), job(id=two.id, after=frozenset({one.id}))]
        )
    assert set((await stored(store)).values()) == {0}


async def test_as_many_as_may_be_claimed_are_claimed(store: Store) -> None:
    made = await enqueue(store, *jobs(3, key="a"))
    [claimed] = await claim(store, bounds.CLAIM_JOBS_MAX, lease_seconds=bounds.LEASE_SECONDS_MAX)
    assert [one.id for one in claimed.jobs] == made


@pytest.mark.parametrize("rows_max", [0, -1, bounds.PAGE_ROWS_MAX + 1, 10**30])
async def test_a_page_has_a_sensible_number_of_rows(store: Store, rows_max: int) -> None:
    await enqueue(store, job(key="a"))
    for read in reads(store):
        with pytest.raises(OutOfBounds, match="rows_max"):
            await read(rows_max=rows_max)


@pytest.mark.parametrize(
    "cursor", ["", "nonsense", "\x00", "é", "'; drop table job; --", "=" * 1_000, "WyJhIl0", "1"]
)
async def test_a_cursor_that_no_page_gave_is_refused(store: Store, cursor: str) -> None:
    await enqueue(store, job(key="a"), job(key="b"))
    for read in reads(store):
        with pytest.raises(BadInput, match="cursor"):
            await read(cursor=cursor)


async def test_unknown_jobs_are_unknown_to_every_verb(store: Store) -> None:
    await enqueue(store, job())
    before = await stored(store)
    for verb in (store.job, store.explain):
        with pytest.raises(UnknownJob, match=str(NOWHERE)):
            await verb(NOWHERE)
    with pytest.raises(UnknownJob, match=str(NOWHERE)):
        await store.cancel(NOWHERE, by="ann")
    assert await store.dead_retry([NOWHERE]) == []
    assert await store.dead_drop([NOWHERE], by="ann") == []
    assert await store.result(NOWHERE) is None
    assert await stored(store) == before


@pytest.mark.parametrize("round", [-1, bounds.ROUND_MAX + 1, 2**70])
async def test_a_gate_opens_only_as_far_as_rounds_go(store: Store, round: int) -> None:
    await enqueue(store, job())
    with pytest.raises(OutOfBounds, match="round"):
        await store.open_gate("default", round)
    assert (await store.queues())[0].gate == 0


async def enqueue_in_a_transaction(store: Store, bad: NewJob) -> None:
    async with store.transaction() as transaction:
        await transaction.enqueue([bad])


def reads(store: Store) -> list[Callable[..., Awaitable[object]]]:
    """Every verb that reads a list page by page."""
    return [
        store.jobs,
        store.dead_letters,
        lambda **options: store.lanes("default", **options),
    ]
