"""Jobs of a durable executor that end unheard: it forgets them, at a cost that does not grow."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from inturn.model.errors import StoreUnavailable
from inturn.model.job import JobState
from inturn.queue.job import Job
from inturn.queue.sending import send
from inturn.worker import awaited, intake, unheard
from inturn.worker.ends import Ends
from inturn.worker.store_room import StoreRoom
from inturn.worker.unheard import Unheard
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import SECONDS_MAX, Seen


class Looks:
    """Counts how often a store is asked about single jobs, and about whatever jobs there are."""

    def __init__(self) -> None:
        self.calls = 0
        self.rows: Counter[Any] = Counter()  # by id: how often it was looked at
        self.error: Exception | None = None

    async def watch(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        store = type(await shop.app.lend())
        job, jobs = store.job, store.jobs

        async def job_counted(self: Any, id: Any) -> Any:
            counting.count(id)
            return await job(self, id)

        async def jobs_counted(self: Any, **options: Any) -> Any:
            page = await jobs(self, **options)
            if options.get("state") is None:
                counting.count(*(view.job.id for view in page.rows))
            return page

        counting = self
        monkeypatch.setattr(store, "job", job_counted)
        monkeypatch.setattr(store, "jobs", jobs_counted)

    def count(self, *ids: Any) -> None:
        self.calls += 1
        self.rows.update(ids)
        if self.error is not None:
            raise self.error


@pytest.fixture
async def looks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Looks:
    looks = Looks()
    await looks.watch(shop, monkeypatch)
    monkeypatch.setattr(awaited, "FRESH_SECONDS", 3600)  # nobody else looks for what was cancelled
    return looks


def waiting_in(shop: Shop, queues: int) -> list[Job[[], None]]:
    """Declare a job on each of so many queues, that waits until the shop opens."""

    def declare(number: int) -> Job[[], None]:
        @shop.app.job(queue=f"q{number}", kind=f"wait_{number}")
        async def wait() -> None:
            await shop.gate.wait()

        return wait

    return [declare(number) for number in range(queues)]


async def test_a_submit_asks_the_store_no_more_when_all_the_queues_are_nearly_full(
    shop: Shop, looks: Looks
) -> None:
    jobs = waiting_in(shop, 6)
    async with running(shop, queue_size=10) as executor:
        for n in range(54):
            await executor.submit(f"k{n}", jobs[n % 6].call(), timeout=SECONDS_MAX)
        assert len(executor._ends.awaited) == 54
        assert looks.calls == 0


@pytest.mark.parametrize("at_once", [1, 5])
async def test_what_others_ended_is_forgotten_at_a_cost_that_does_not_grow(
    shop: Shop, looks: Looks, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(unheard, "ROWS_MAX", 8)
    room = 2 * 10 * 2  # two queues
    async with running(shop, slots=1, queue_size=10) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: executor.keys_busy == 1)
        late = shop.write.using(delay=3600)
        kept = [await executor.submit("late", late.call("late", n)) for n in range(4)]
        for n in range(0, 300, at_once):
            before = looks.calls
            batch = [("a", shop.write.call("a", n)) for _ in range(at_once)]
            for ticket in await executor.submit_many(batch, timeout=SECONDS_MAX):
                await ticket.cancel()
            assert looks.calls - before <= 2 * at_once
            assert len(executor._ends.awaited) <= 2 * room
        assert looks.calls <= 300 / 4 + 20, "it looks at one by one"
        assert {ticket.id for ticket in kept} < executor._ends.awaited.keys()
        assert max(looks.rows[ticket.id] for ticket in kept) <= 2 * 300 / room


async def test_what_others_ended_is_forgotten_though_their_own_jobs_lie_between(
    shop: Shop, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unheard, "ROWS_MAX", 4)
    seen = Seen()
    async with running(
        shop, queue_size=4, listeners=[seen.listen], error_handler=seen.handle
    ) as executor:
        late = shop.write.using(delay=3600)
        for n in range(60):
            before = looks.calls
            ticket = await executor.submit("a", late.call("a", n), timeout=SECONDS_MAX)
            assert looks.calls - before <= 2
            await ticket.cancel()
            for _ in range(5):
                await (await late.using(key="other").submit("other", n)).cancel()
            assert len(executor._ends.awaited) <= 2 * 16
    assert len(seen.failures) == 60, "each is told of, once"


async def test_what_has_not_ended_is_looked_at_rarely_however_much_is_submitted(
    shop: Shop, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(shop, queue_size=1) as executor:
        monkeypatch.setattr(StoreRoom, "_has_room", lambda *_: True)
        late = shop.write.using(delay=3600)
        tickets = [await executor.submit("a", late.call("a", n)) for n in range(150)]
        assert len(executor._ends.awaited) == 150
        assert looks.calls <= 20
        assert max(looks.rows.values()) <= 8
        for ticket in tickets:
            await ticket.cancel()


async def test_a_job_is_not_accepted_by_a_submit_that_could_not_look(
    shop: Shop, looks: Looks
) -> None:
    async with running(shop, queue_size=2) as executor:
        late = shop.write.using(delay=3600)
        looks.error = StoreUnavailable("the store is away.")
        accepted = 0
        while True:
            try:
                ticket = await executor.submit("a", late.call("a", accepted), timeout=SECONDS_MAX)
            except StoreUnavailable:
                break
            await ticket.cancel()
            accepted += 1
            assert accepted < 50, "it never looked"
        looks.error = None
        page = await shop.app.run(lambda store: store.jobs(state=JobState.SCHEDULED))
        assert len(page.rows) == 0
        page = await shop.app.run(lambda store: store.jobs(state=JobState.CANCELLED))
        assert len(page.rows) == accepted


async def test_what_has_not_ended_is_not_forgotten_though_several_look_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unheard, "ROWS_MAX", 2)
    ends = Ends([], None)
    late = shop.write.using(delay=3600)
    for n in range(8):
        call = late.using(key="a").call("a", n)
        ends.expect([call.new])
        await shop.app.submit_many([call])
        ends.arrived([call.new])
        await late.using(key="other").submit("other", n)  # so that no page holds two of ours
    looking = Unheard(ends)
    assert looking.is_due(8, room=0)
    await asyncio.gather(*(shop.app.run(looking._look_at_page) for _ in range(2)))
    await shop.app.run(lambda store: looking.look(store, 8))
    assert len(ends.awaited) == 8
    assert not looking._unseen


async def test_what_is_on_its_way_into_the_store_is_not_taken_for_pruned(
    shop: Shop, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrives = asyncio.Event()
    late = shop.write.using(delay=3600)

    async def send_slowly(*given: Any, **options: Any) -> Any:
        await arrives.wait()
        return await send(*given, **options)

    async with running(shop, queue_size=2) as executor:
        monkeypatch.setattr(intake, "send", send_slowly)
        submitting = asyncio.create_task(executor.submit("slow", late.call("slow", 0)))
        await until(lambda: len(executor._ends.awaited) == 1)
        monkeypatch.setattr(intake, "send", send)
        for n in range(30):
            await (await executor.submit("a", late.call("a", n), timeout=SECONDS_MAX)).cancel()
        assert looks.calls > 0
        arrives.set()
        assert (await submitting).id in executor._ends.awaited
