"""Jobs that are declared while a durable executor runs: it learns of them, and runs them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import inturn
from inturn.model.errors import BadInput
from inturn.model.job import JobState
from inturn.queue.job import Job
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import SECONDS_MAX, Seen


async def test_a_job_that_is_declared_late_runs_also_on_a_queue_of_its_own(shop: Shop) -> None:
    before = declared(shop, "before")
    async with running(shop) as executor:
        assert await executor.run("a", before.call()) == "before"
        late, elsewhere = declared(shop, "late"), declared(shop, "elsewhere", queue="new")
        assert await executor.run("a", late.call()) == "late"
        assert await executor.run("a", elsewhere.call()) == "elsewhere"
        assert await executor.run("a", before.using(queue="new").call()) == "before"
        await executor.submit("b", elsewhere.call())
        await executor.barrier("b")
    assert await states(shop) == [JobState.DONE] * 5


async def test_a_job_that_is_declared_late_is_watched_like_the_others(shop: Shop) -> None:
    seen = Seen()

    async with running(shop, error_handler=seen.handle) as executor:
        await executor.run("a", shop.write.call("a", 1))

        @shop.app.job(attempts=1)
        async def late() -> None:
            assert executor.current() is not None
            raise ConnectionError("no line")

        await executor.submit("a", late.call())
    [failure] = seen.failures
    assert str(failure.error) == "no line"


async def test_what_others_submit_of_a_late_kind_runs_too(shop: Shop) -> None:
    async with running(shop) as executor:
        await executor.run("a", shop.write.call("a", 1))
        late = declared(shop, "late", queue="new")
        ticket = await late.submit()  # the executor does not hear of it
        assert await ticket.result(SECONDS_MAX) == "late"


async def test_who_looks_sees_which_kinds_and_queues_are_taken_now(shop: Shop) -> None:
    async with running(shop, lease_seconds=0.3) as executor:
        await executor.run("a", shop.write.call("a", 1))
        await executor.run("a", declared(shop, "late", queue="new").call())

        async def is_told() -> bool:
            found = await shop.app.run(lambda store: store.workers())  # none, if it beats late
            return any("late" in one.kinds and "new" in one.queues for one in found)

        await until(is_told)


async def test_jobs_may_be_declared_from_threads_while_others_are_submitted(shop: Shop) -> None:
    async with running(shop) as executor:

        def declare() -> None:
            for n in range(20):
                job = declared(shop, f"late-{n}", queue=f"queue-{n % 3}")
                executor.submit_sync("a", job.call(), timeout=SECONDS_MAX)

        thread = threading.Thread(target=declare)
        thread.start()
        for n in range(20):
            await executor.submit("b", shop.write.call("b", n), timeout=SECONDS_MAX)
        await asyncio.to_thread(thread.join)
    assert await states(shop) == [JobState.DONE] * 40


async def test_what_runs_in_processes_must_be_declared_before(tmp_path: Any) -> None:
    app = inturn.App(f"sqlite:///{tmp_path / 'work.db'}")
    early = app.job(kind="early")(lambda: "early")
    async with inturn.Executor(app=app) as executor:
        assert await executor.run("a", early.call()) == "early"
        late = app.job(kind="late", queue="new", process=True)(doubled)
        with pytest.raises(BadInput, match=r"'late' is of process=True .* Import what declares it"):
            await executor.submit("a", late.call(1))
        with pytest.raises(BadInput, match=r"queue 'new' is none .*\(default\)"):
            await executor.submit("a", early.using(queue="new").call())
        assert await executor.run("a", early.call()) == "early"
    await app.close()


def doubled(n: int) -> int:
    return 2 * n


def declared(shop: Shop, kind: str, **options: Any) -> Job[[], str]:
    """Declare a job that returns its kind."""

    async def handler() -> str:
        return kind

    return shop.app.job(kind=kind, **options)(handler)


async def states(shop: Shop) -> list[JobState]:
    return [view.state for view in (await shop.app.run(lambda store: store.jobs())).rows]
