"""A store that may not be used: a worker that never could ends, and one that could goes on."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.model.errors import NoRights, StoreError, StoreUnavailable
from inturn.model.worker_events import StoreTroubled, WorkerEvent
from inturn.queue.app import App
from tests.worker.conftest import until, working


class Guarded:
    """Lets a verb of a store fail, for as long as there is an error."""

    def __init__(self, store: Any, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: StoreError | None = None
        self.refused = 0
        self._verb = getattr(store, verb)
        monkeypatch.setattr(store, verb, self)

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.error is not None:
            self.refused += 1
            raise self.error
        return await self._verb(*arguments, **options)


async def test_a_worker_that_could_use_its_store_waits_for_its_rights(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = Guarded(await app.lend(), "claim", monkeypatch)
    heard: list[WorkerEvent] = []

    @app.job
    async def work() -> None: ...

    async with working(app, listeners=[heard.append]):
        await (await work.submit()).result(timeout=60)
        guarded.error = NoRights("no more")
        ticket = await work.submit()
        await until(lambda: guarded.refused > 1)
        await until(lambda: any(isinstance(one, StoreTroubled) for one in heard))
        assert [one.error for one in heard if isinstance(one, StoreTroubled)] == ["no more"]
        guarded.error = None
        await ticket.result(timeout=60)


@pytest.mark.parametrize("verb", ["beat", "claim"])
async def test_a_worker_waits_for_a_store_that_is_away_from_the_first(
    app: App, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = app.spare_store()  # the background thread's
    monkeypatch.setattr(app, "spare_store", lambda: spare)
    guarded = Guarded(spare if verb == "beat" else await app.lend(), verb, monkeypatch)
    guarded.error = StoreUnavailable("away")

    @app.job
    async def work() -> None: ...

    ticket = await work.submit()
    async with working(app):
        await until(lambda: guarded.refused)
        guarded.error = None
        await ticket.result(timeout=60)
