"""Jobs of a durable executor that are cancelled in the store: each is told of, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from inturn.metrics import ExecutorMetrics
from inturn.model import events
from inturn.model.errors import JobCancelled
from inturn.model.job import JobState
from inturn.queue.sending import send
from inturn.worker import awaited, intake
from inturn.worker.awaited import Awaited
from inturn.worker.ends import Ends
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import Seen

CANCELLATIONS = "mycelian_shardqueue_cancellations_total"


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited, "FRESH_SECONDS", 0.01)


@pytest.mark.usefixtures("looks_often")
async def test_a_job_that_is_cancelled_before_it_ran_is_told_of_while_others_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "REAPED_MAX", 2)  # they are found on more pages than one
    seen, registry = Seen(), CollectorRegistry()
    listeners = [seen.listen, ExecutorMetrics(registry)]
    for n in range(3):  # what others cancelled before and since is not this executor's
        await (await shop.write.using(key="other", delay=3600).submit("other", n)).cancel()
    async with running(shop, slots=1, listeners=listeners, error_handler=seen.handle) as executor:
        tickets = [await executor.submit("a", shop.write.using(delay=3600).call("a", 0))]
        await executor.submit("a", shop.wait.call())
        tickets += [await executor.submit("a", shop.write.call("a", n)) for n in range(1, 5)]
        await (await shop.write.using(key="other", delay=3600).submit("other", 9)).cancel()
        for ticket in tickets[:4]:
            await ticket.cancel(by="the owner")
        await until(lambda: len(seen.failures) == 4)
        assert registry.get_sample_value(CANCELLATIONS, {"shard": "0"}) == 4.0
        shop.gate.set()
    assert shop.ran["a"] == [4]
    assert len(seen.failures) == len(seen.of(events.Cancelled)) == 4
    for failure in seen.failures:
        assert (failure.key, failure.attempts) == ("a", 0)
        assert isinstance(failure.error, JobCancelled)
        assert str(failure.error) == "a job of key 'a' was cancelled: by the owner."


async def test_a_stop_tells_of_what_was_cancelled_and_not_seen_yet(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "FRESH_SECONDS", 3600)
    seen = Seen()
    async with running(shop, listeners=[seen.listen], error_handler=seen.handle) as executor:
        late = await executor.submit("a", shop.write.using(delay=3600).call("a", 1))
        await late.cancel()
    assert [type(failure.error) for failure in seen.failures] == [JobCancelled]
    assert len(seen.of(events.Cancelled)) == 1


@pytest.mark.parametrize("own", ["two", "each second", "each tenth", "most"])
async def test_one_look_tells_of_all_that_was_cancelled_however_many_others_were(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.setattr(awaited, "REAPED_MAX", 8)
    seen, jobs = Seen(), 80
    ends = Ends([seen.listen], seen.handle)
    ours = {
        "two": {0, jobs - 1},
        "each second": set(range(0, jobs, 2)),
        "each tenth": set(range(0, jobs, 10)),
        "most": set(range(jobs)) - {5, 50},
    }[own]
    calls = [shop.write.using(key="a", delay=3600).call("a", n) for n in range(jobs)]
    ends.expect([calls[n].new for n in ours])
    tickets = await shop.app.submit_many(calls)
    ends.arrived([calls[n].new for n in ours])
    for ticket in tickets[1:]:  # the first of ours waits on
        await ticket.cancel()
    store: Any = await shop.app.lend()
    listed, pages = store.jobs, 0

    async def count_page(**options: Any) -> Any:
        nonlocal pages
        pages += 1
        return await listed(**options)

    monkeypatch.setattr(store, "jobs", count_page)
    hearing = Awaited(ends, lambda: None, lambda *_: True)
    await hearing._hear_cancelled(store)
    assert len(seen.failures) == len(ours) - 1
    assert list(ends.awaited) == [calls[0].id]
    assert pages <= min(len(ours), jobs // 8)
    pages, others = 0, len(seen.failures)
    await hearing._hear_cancelled(store)
    assert (pages, len(seen.failures)) == (1, others), "with one left it asks once"


async def test_of_a_job_that_is_not_accepted_yet_nothing_is_told(shop: Shop) -> None:
    seen = Seen()
    ends = Ends([seen.listen], seen.handle)
    call = shop.write.using(key="a", delay=3600).call("a", 1)
    ends.expect([call.new])
    [ticket] = await shop.app.submit_many([call])
    await ticket.cancel(by="its submitter, who was cancelled")
    view = await ticket.status()
    ends.cancelled(view)
    assert not seen.failures
    ends.arrived([call.new])
    for _ in range(2):
        ends.cancelled(view)
    assert len(seen.failures) == len(seen.events) == 1
    assert not ends.awaited


async def test_a_submitter_that_is_cancelled_takes_back_no_job_that_another_had_submitted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_submitting, may_submit = asyncio.Event(), asyncio.Event()

    async def send_slowly(*given: Any, **options: Any) -> Any:
        is_submitting.set()
        await may_submit.wait()
        return await send(*given, **options)

    once = shop.write.using(dedupe="x", delay=3600)
    first = await once.using(key="a").submit("a", 1)
    monkeypatch.setattr(intake, "send", send_slowly)
    async with running(shop) as executor:
        calls = [("a", once.call("a", 1)), ("a", shop.write.using(delay=3600).call("a", 2))]
        submitting = asyncio.create_task(executor.submit_many(calls))
        await is_submitting.wait()
        submitting.cancel()
        may_submit.set()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        assert (await first.status()).state is JobState.SCHEDULED
        page = await shop.app.run(lambda store: store.jobs(state=JobState.CANCELLED))
        assert len(page.rows) == 1, "what it had submitted itself is taken back"
