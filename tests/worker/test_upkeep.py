"""A worker that lives for a while prunes its store; what goes wrong there holds up nothing."""

from __future__ import annotations

import pytest

from inturn.model.errors import StoreBusy
from inturn.model.job import JobState
from inturn.model.lane import QueueSettings
from inturn.model.lease import Pruned
from inturn.model.worker_events import PruneFailed, WorkerEvent
from inturn.queue.app import App
from inturn.worker import background
from tests.worker.conftest import until, working


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every worker prune again and again."""
    monkeypatch.setattr(background, "PRUNE_SECONDS", 0.05)


async def has_no_done_jobs(app: App) -> bool:
    page = await app.run(lambda store: store.jobs(state=JobState.DONE))
    return not page.rows


@pytest.mark.usefixtures("often")
async def test_what_is_done_and_past_its_time_goes_while_a_worker_works(app: App) -> None:
    ran: list[int] = []

    @app.job
    async def work(number: int) -> None:
        ran.append(number)

    await app.run(lambda store: store.configure("default", QueueSettings(keep_done_seconds=0)))
    await app.submit_many([work.call(number) for number in range(20)])
    async with working(app) as worker:
        await until(lambda: len(ran) == 20 and not worker.running)
        await until(lambda: has_no_done_jobs(app))


@pytest.mark.usefixtures("often")
async def test_a_prune_that_fails_is_told_and_the_worker_goes_on(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[WorkerEvent] = []

    @app.job
    async def work() -> str:
        return "done"

    async def fail(_store: object) -> Pruned:
        raise StoreBusy("somebody else is at it.")

    await app.open()
    monkeypatch.setattr(type(app.spare_store()), "prune", fail)
    async with working(app, listeners=[heard.append]) as worker:
        await until(lambda: len(_failures(heard)) > 1)
        assert await (await work.submit()).result(timeout=60) == "done"
        assert not worker.health.is_troubled
    assert {event.error for event in _failures(heard)} == {"somebody else is at it."}


def _failures(heard: list[WorkerEvent]) -> list[PruneFailed]:
    return [event for event in heard if isinstance(event, PruneFailed)]
