"""Bad input: refused with an error that names the thing, before anything is stored.

Promises P11 and P16 of ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec
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
from inturn.model.lane import QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    NOWHERE,
    enqueue,
    job,
    jobs,
    run_all,
    stored,
)

HUGE = '"' + "x" * bounds.PAYLOAD_BYTES_MAX + '"'

BAD_JOBS: dict[str, tuple[dict[str, Any], type[BadInput], str]] = {
    "payload-nan-inside": ({"payload": '{"a": [NaN]}'}, InvalidPayload, "NaN"),
    "payload-surrogate": ({"payload": '"\ud800"'}, InvalidPayload, "surrogate"),
    "payload-nul": ({"payload": '"\\u0000"'}, InvalidPayload, "NUL"),
    "payload-large": ({"payload": HUGE}, PayloadTooLarge, "payload"),
    "payload-number": ({"payload": '{"a": 1e400}'}, InvalidPayload, "too large for a double"),
    "payload-digits": ({"payload": "9" * 5_000}, InvalidPayload, "4,300 digits"),
    "queue-nul": ({"queue": "a\x00b"}, InvalidName, "queue"),
    "key-long": ({"key": "k" * (bounds.KEY_CHARS_MAX + 1)}, InvalidName, "key"),
    "delay-endless": ({"delay_seconds": 10**400}, OutOfBounds, "is a whole number of"),
    "after-list": ({"after": [NOWHERE]}, BadInput, "after must be a set"),
    "after-text": ({"after": frozenset({str(NOWHERE)})}, BadInput, "after must be a UUID"),
    "id-text": ({"id": str(NOWHERE)}, BadInput, "id of a job must be a UUID"),
    "after-unknown": ({"after": frozenset({NOWHERE})}, UnknownDependency, str(NOWHERE)),
}
"""What both stores refuse; ``unit/test_model_admissible.py`` has every bound."""


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


Call = Callable[[Any], Awaitable[object]]
NAIVE = datetime(2026, 1, 1)
BOGUS: Any = msgspec.structs.replace(QueueSettings(), on_dead="bogus")

CALLS: dict[str, tuple[Call, type[BadInput], str]] = {
    "one-job": (lambda store: store.enqueue(job()), BadInput, "jobs must be a list"),
    "jobs-text": (lambda store: store.enqueue(["k"]), BadInput, "'k', which is not a NewJob"),
    "job-text": (lambda store: store.job(str(NOWHERE)), BadInput, "must be a UUID"),
    "cancel-text": (lambda store: store.cancel("x", by="ann"), BadInput, "must be a UUID"),
    "dead-one": (lambda store: store.dead_retry(NOWHERE), BadInput, "jobs must be a list"),
    "state": (lambda store: store.jobs(state="bogus"), BadInput, "no state 'bogus'.*waiting"),
    "on-dead": (
        lambda store: store.configure("q", BOGUS),
        BadInput,
        "on_dead is 'bogus'; it may be 'skip' or 'halt'",
    ),
    "since-naive": (lambda store: store.stats("q", since=NAIVE), BadInput, "no time zone"),
    "kinds-text": (
        lambda store: store.claim("q", jobs_max=1, worker="w", kinds="mail"),
        BadInput,
        "kinds must be a list",
    ),
    "wait-text": (
        lambda store: store.wait("default", timeout_seconds=0),
        BadInput,
        "queues must be a list",
    ),
    "reads-queue": (lambda store: store.jobs(queue="\x00"), InvalidName, "the queue"),
    "lane-key": (lambda store: store.retry_lane("q", "\ud800"), InvalidName, "the key"),
}


@pytest.mark.parametrize(("call", "error", "named"), list(CALLS.values()), ids=list(CALLS))
async def test_an_argument_of_a_wrong_type_is_refused(
    store: Store, call: Call, error: type[BadInput], named: str
) -> None:
    with pytest.raises(error, match=named):
        await call(store)
    assert set((await stored(store)).values()) == {0}


async def test_whatever_can_be_gone_through_is_a_batch(store: Store) -> None:
    batch = jobs(50, key="a")
    nothing, some, more = iter(()), (one for one in batch), (one for one in jobs(2, key="a"))
    assert await store.enqueue(nothing) == []
    tickets = await store.enqueue(some)
    tickets += await store.enqueue(tuple(jobs(2, key="a")))
    async with store.transaction() as transaction:
        tickets += await transaction.enqueue(more)
    assert [ticket.id for ticket in tickets[:50]] == [one.id for one in batch]
    assert await run_all(store) == [ticket.id for ticket in tickets]


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
