"""Arguments of a wrong type: refused with an error that says what was meant.

Promise P11 of ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest

from inturn.model.errors import BadInput, InvalidName
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.store import Store
from tests.contract.support import NOWHERE, enqueue, job, jobs, run_all, stored

Call = Callable[[Any], Awaitable[object]]
NAIVE = datetime(2026, 1, 1)


def settings(**options: Any) -> QueueSettings:
    return QueueSettings(**options)


CALLS: dict[str, tuple[Call, type[BadInput], str]] = {
    "one-job": (lambda store: store.enqueue(job()), BadInput, "jobs must be a list"),
    "jobs-text": (lambda store: store.enqueue(["k"]), BadInput, "'k', which is not a NewJob"),
    "job-text": (lambda store: store.job(str(NOWHERE)), BadInput, "must be a UUID"),
    "cancel-text": (lambda store: store.cancel("x", by="ann"), BadInput, "must be a UUID"),
    "dead-one": (lambda store: store.dead_retry(NOWHERE), BadInput, "jobs must be a list"),
    "state": (lambda store: store.jobs(state="bogus"), BadInput, "no state 'bogus'.*waiting"),
    "on-dead": (
        lambda store: store.configure("q", settings(on_dead="bogus")),
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


async def test_a_state_and_what_a_queue_does_may_be_given_by_name(store: Store) -> None:
    [made] = await enqueue(store, job())
    for name, found in (("waiting", [made]), ("done", [])):
        page = await store.jobs(state=name)  # type: ignore[arg-type]
        assert [view.job.id for view in page.rows] == found
    await store.configure("default", settings(on_dead="halt"))
    assert (await store.queues())[0].settings.on_dead is OnDead.HALT
