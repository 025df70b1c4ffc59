"""PgQueuer: jobs in a table, claimed in batches with ``skip locked``, settled through a buffer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, note
from bench.peers.tally import Tally

PEER = Peer(
    name="pgqueuer",
    environment=PythonEnvironment("pgqueuer"),
    unfinished="select count(*) from pgqueuer",
    order="none: a limit on how many run at once is by entrypoint, not by key",
    loss="given to another worker after a time without a sign of life",
    configurations=(
        Configuration(
            name="default",
            why="one process, batch_size=10, a single asyncpg connection, the standard event loop",
            jobs=15_000,
        ),
        Configuration(
            name="best",
            why="its guide 'Performance Tuning': a larger batch_size for short jobs, `pgq autovac` "
            "after the installation, a connection of its own for each process; uvloop, which its "
            "command line uses where it is installed; durable, as all sides are",
            processes=2,
            jobs=60_000,
            settings={"batch_size": 1_000, "autovac": True, "uvloop": True},
        ),
    ),
)


async def prepare(url: str, keys: int) -> None:
    """Make the tables; keys it has none."""
    import asyncpg
    from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
    from pgqueuer.queries import Queries  # type: ignore[import-not-found]

    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(url)
    try:
        yield Enqueuer(Queries(AsyncpgDriver(connection)))
    finally:
        await connection.close()


@dataclass(frozen=True, slots=True)
class Enqueuer:
    """What enqueues."""

    queries: Any

    async def one(self, number: int) -> None:
        """Enqueue one job."""
        await self.queries.enqueue("deliver", _payload(number))

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Enqueue a list of jobs in one statement."""
        payloads = [_payload(number) for number in numbers]
        await self.queries.enqueue(["deliver"] * len(payloads), payloads, [0] * len(payloads))


def _payload(number: int) -> bytes:
    return json.dumps({"number": number, "note": note(number)}, separators=(",", ":")).encode()


async def work(url: str, settings: dict[str, Any], tally: Tally) -> None:
    """Be a worker."""
    import asyncpg
    from pgqueuer import PgQueuer  # type: ignore[import-not-found]
    from pgqueuer.db import AsyncpgDriver

    connection = await asyncpg.connect(url)
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("deliver")  # type: ignore[untyped-decorator]
    async def deliver(job: Any) -> None:
        tally.ran(json.loads(job.payload)["number"])

    if settings.pop("autovac", False):
        await queue.qm.queries.optimize_autovacuum()
    await tally.begin()
    await queue.run(dequeue_timeout=timedelta(seconds=30), **settings)


if __name__ == "__main__":
    Program(producer=producer, prepare=prepare, work=work).run()
