"""A producer process of a run: submits its share, cancels some of it, and says the same twice."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from threading import Event
from uuid import UUID

from inturn.model.errors import InturnError, StoreError
from inturn.model.job import NewJob
from inturn.store.address import connect
from inturn.verify.history import Began, History, Left
from inturn.verify.orders import Orders
from inturn.verify.plan import Settings, Workload
from inturn.verify.points import Points
from inturn.verify.recorder import RecordingStore

TROUBLE_SECONDS = 0.2
PAUSE_SECONDS = 0.02


def main(name: str, settings: Settings) -> None:
    """Submit until told to stop."""
    settings.prepare_process()
    history = History(settings.history_folder(), name)
    points = Points(history)
    producer = Producer(name, settings, history, points)
    Orders(
        history,
        {
            "die": points.die_at,
            "go": lambda _: producer.may_go.set(),
            "pause": lambda _: producer.may_go.clear(),
            "stop": lambda _: producer.stop(),
        },
    ).start()
    asyncio.run(producer.run())


class Producer:
    """Submits batch after batch, each again until the store has answered."""

    def __init__(self, name: str, settings: Settings, history: History, points: Points) -> None:
        self._history = history
        self._workload = Workload(settings, name)
        self._closed = connect(settings.store)
        self._store = RecordingStore(self._closed, history, points)
        self._is_stopped = False
        self.may_go = Event()

    def stop(self) -> None:
        """Submit no more."""
        self._is_stopped = True
        self.may_go.set()

    async def run(self) -> None:
        """Submit until told to stop."""
        while True:
            try:
                await self._closed.open()
                break
            except StoreError:
                await asyncio.sleep(TROUBLE_SECONDS)
        self._history.write(Began(name=self._history.name, pid=os.getpid()))
        for batch in self._workload:
            await asyncio.to_thread(self.may_go.wait)
            if self._is_stopped:
                break
            await self._submit(batch.jobs)
            if batch.again:
                await self._submit(batch.again)
            for job in batch.cancels:
                await self._cancel(job)
            await asyncio.sleep(PAUSE_SECONDS)
        await self._closed.close()
        self._history.write(Left())

    async def _submit(self, jobs: Sequence[NewJob]) -> None:
        """Submit a batch under the same ids until the store says yes or no."""
        while True:
            try:
                await self._store.enqueue(jobs)
                return
            except StoreError:
                await asyncio.sleep(TROUBLE_SECONDS)
            except InturnError:
                return

    async def _cancel(self, job: UUID) -> None:
        while True:
            try:
                await self._store.cancel(job, by="its producer")
                return
            except StoreError:
                await asyncio.sleep(TROUBLE_SECONDS)
            except InturnError:
                return


if __name__ == "__main__":
    main(sys.argv[1], Settings.of_this_process())
