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
    "payload-nan-inside": ({"payload": '{"a": [NaN]}'}, InvalidPayload, "NaN"),
    "payload-surrogate": ({"payload": '"\ud800"'}, InvalidPayload, "surrogate"),
    "payload-nul": ({"payload": '"\\u0000"'}, InvalidPayload, "NUL"),
    "payload-bytes": ({"payload": b"1"}, InvalidPayload, "payload"),
    "payload-large": ({"payload": HUGE}, PayloadTooLarge, "payload"),
    "payload-number": ({"payload": '{"a": 1e400}'}, InvalidPayload, "too large for a double"),
    "payload-digits": ({"payload": "9" * 5_000}, InvalidPayload, "4,300 digits"),
    "payload-deep": ({"payload": "[" * 900 + "]" * 900}, InvalidPayload, "nested more than"),
    "queue-empty": ({"queue": ""}, InvalidName, "queue"),
    "queue-nul": ({"queue": "a\x00b"}, InvalidName, "queue"),
    "key-long": ({"key": "k" * (bounds.KEY_CHARS_MAX + 1)}, InvalidName, "key"),
    "kind-empty": ({"kind": ""}, InvalidName, "kind"),
    "dedupe-long": ({"dedupe": "d" * (bounds.DEDUPE_CHARS_MAX + 1)}, InvalidName, "dedupe"),
    "dedupe-for-ever": ({"dedupe": "d", "dedupe_seconds": 1e12}, OutOfBounds, "dedupe_seconds"),
    "delay-negative": ({"delay_seconds": -1.0}, OutOfBounds, "delay_seconds"),
    "delay-endless": (
        {"delay_seconds": 10**400},
        OutOfBounds,
        "delay_seconds is a whole number of",
    ),
    "delay-text": ({"delay_seconds": "5"}, OutOfBounds, "delay_seconds"),
    "attempts-absurd": ({"attempts_max": 10**9}, OutOfBounds, "attempts_max"),
    "priority-high": ({"priority": 10**20}, OutOfBounds, "priority"),
    "round-absurd": ({"round": 2**40}, OutOfBounds, "round"),
    "round-and-delay": ({"round": 1, "delay_seconds": 1.0}, OutOfBounds, "round"),
    "timeout-negative": ({"timeout_seconds": -1.0}, OutOfBounds, "timeout_seconds"),
    "after-list": ({"after": [NOWHERE]}, BadInput, "after must be a set"),
    "after-text": ({"after": frozenset({str(NOWHERE)})}, BadInput, "after must be a UUID"),
    "id-text": ({"id": str(NOWHERE)}, BadInput, "id of a job must be a UUID"),
    "after-unknown": ({"after": frozenset({NOWHERE})}, UnknownDependency, str(NOWHERE)),
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


async def test_as_many_as_may_be_claimed_are_claimed(store: Store) -> None:
    made = await enqueue(store, *jobs(3, key="a"))
    [claimed] = await claim(store, bounds.CLAIM_JOBS_MAX, lease_seconds=bounds.LEASE_SECONDS_MAX)
    assert [one.id for one in claimed.jobs] == made


@pytest.mark.parametrize("rows_max", [0, bounds.PAGE_ROWS_MAX + 1])
async def test_a_page_has_a_sensible_number_of_rows(store: Store, rows_max: int) -> None:
    await enqueue(store, job(key="a"))
    for read in reads(store):
        with pytest.raises(OutOfBounds, match="rows_max"):
            await read(rows_max=rows_max)


@pytest.mark.parametrize("cursor", ["", "nonsense", "WyJhIl0"])
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


async def test_a_gate_opens_only_as_far_as_rounds_go(store: Store) -> None:
    await enqueue(store, job())
    with pytest.raises(OutOfBounds, match="round"):
        await store.open_gate("default", bounds.ROUND_MAX + 1)
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
