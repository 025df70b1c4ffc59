"""DBOS: durable workflows, whose queues are rows of their status table that workers poll."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, key, note
from bench.peers.tally import Tally

QUEUE = "deliver"
POLLING = f"queue-worker-{QUEUE}"  # the thread that DBOS has for it

BEST = Configuration(
    name="best",
    why="its reference of queues: polled every 10 ms instead of every second, with a bound on what "
    "a process runs at once (worker_concurrency) so that both get a share; a process for each core",
    processes=2,
    jobs=1_500,
    settings={"polling_interval_sec": 0.01, "worker_concurrency": 100},
)

PEER = Peer(
    name="dbos",
    environment=PythonEnvironment("dbos"),
    unfinished="select count(*) from dbos.workflow_status "
    "where status in ('ENQUEUED', 'PENDING', 'DELAYED')",
    order="with partition_concurrency=1, workflows of a partition run one at a time, first in "
    "first out; not among those enqueued in one transaction, which ran in any order",
    loss="run again by a process with the same executor id, or by its control plane",
    configurations=(
        Configuration(name="default", why="one process, polled every second, no bound", jobs=1_000),
        BEST,
    ),
    keyed=replace(
        BEST,
        name="partitions",
        why=BEST.why + "; partition_concurrency=1",
        jobs=2_000,
        settings={**BEST.settings, "partition_concurrency": 1},
    ),
)


async def prepare(url: str, keys: int) -> None:
    """Make the tables, as the first launch does, and the queue, from which nothing is taken yet.

    A process looks for new queues every second, and only when it has found one does it poll it. So
    the queue is there before the processes are, and takes its settings when they begin.
    """
    dbos = _launched(url, None)
    await dbos.register_queue_async(QUEUE, worker_concurrency=0, polling_interval_sec=0.01)
    dbos.destroy()


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    import sqlalchemy
    from dbos import DBOSClient  # type: ignore[import-not-found]

    client = DBOSClient(system_database_url=url)
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    try:
        yield Enqueuer(client, engine)
    finally:
        client.destroy()
        engine.dispose()


@dataclass(frozen=True, slots=True)
class Enqueuer:
    """What enqueues."""

    client: Any
    engine: Any

    async def one(self, number: int) -> None:
        """Enqueue one workflow."""
        self.client.enqueue(_options(number, 0), number, note(number))

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Enqueue workflows in one transaction, a statement each.

        All of a transaction have the same time, which is what their order goes by, so that a
        transaction may have each key only once.
        """
        size = min(len(numbers), keys) if keys else len(numbers)
        for first in range(0, len(numbers), size):
            with self.engine.begin() as connection:
                for number in numbers[first : first + size]:
                    self.client.enqueue_in_transaction(
                        connection, _options(number, keys), number, note(number)
                    )


async def work(url: str, settings: dict[str, Any], tally: Tally) -> None:
    """Be a worker, from the moment the queue has its settings."""
    dbos = _launched(url, tally)
    while not any(one.name == POLLING for one in threading.enumerate()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await tally.begin()
    await dbos.register_queue_async(QUEUE, on_conflict="always_update", **settings)
    await asyncio.Event().wait()


def _launched(url: str, tally: Tally | None) -> Any:
    from dbos import DBOS

    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "executor_id": str(os.getpid()),
            "application_version": "1",
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )

    @DBOS.workflow(name="deliver")  # type: ignore[untyped-decorator]
    async def deliver(number: int, note: str) -> None:
        assert tally is not None
        tally.ran(number)

    DBOS.launch()
    return DBOS


def _options(number: int, keys: int) -> dict[str, Any]:
    options = {"queue_name": QUEUE, "workflow_name": "deliver"}
    return options | {"queue_partition_key": key(number, keys)} if keys else options


if __name__ == "__main__":
    Program(producer=producer, prepare=prepare, work=work).run()
