"""A worker process of a run: an ordinary worker, whose store keeps a history."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from inturn.model.errors import StoreError
from inturn.verify.history import Began, History, Left
from inturn.verify.jobs import app
from inturn.verify.orders import Orders, SteppedClock, step_clock
from inturn.verify.plan import HAND_MAX, SLOTS, Settings
from inturn.verify.points import Points
from inturn.worker.worker import Worker

TROUBLE_SECONDS = 0.2


def main(name: str, settings: Settings) -> None:
    """Work until told to stop."""
    settings.prepare_process()
    history = History(settings.history_folder(), name)
    clock = SteppedClock()
    app.history, app.points = history, Points(history)
    on_sqlite = settings.store.startswith("sqlite:")  # on PostgreSQL the time is the database's
    app.use(settings.store, clock=clock if on_sqlite else None)
    Orders(
        history,
        {
            "die": app.points.die_at,
            "stop": app.points.stop_at,
            "clock": step_clock(clock, history),
        },
    ).start()
    asyncio.run(_work(name, settings, history))


async def _work(name: str, settings: Settings, history: History) -> None:
    worker = Worker(
        app,
        queues=[settings.queue, settings.rounds],
        concurrency=SLOTS,
        jobs_max=HAND_MAX,
        lease_seconds=settings.lease_seconds,
        sweep_seconds=settings.sweep_seconds,
        name=f"{name}-{settings.run}",
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await _open()
    await worker.run(began=lambda: _began(history))
    await app.close()
    history.write(Left())


async def _open() -> None:
    """Open the store, however long it is away: here a supervisor would start the worker again."""
    while True:
        try:
            return await app.open()
        except StoreError:
            await asyncio.sleep(TROUBLE_SECONDS)


def _began(history: History) -> None:
    history.write(Began(name=history.name, pid=os.getpid()))


if __name__ == "__main__":
    main(sys.argv[1], Settings.of_this_process())
