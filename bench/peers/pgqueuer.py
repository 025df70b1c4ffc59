"""PgQueuer: jobs in a table, claimed in batches with ``skip locked``, settled through a buffer."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import batches, note, run
from bench.peers.tally import Tally

PEER = Peer(
    name="pgqueuer",
    environment=PythonEnvironment("pgqueuer"),
    unfinished="select count(*) from pgqueuer",
    configurations=(
        Configuration(
            name="default",
            why="one process, batch_size=10, a single asyncpg connection, the standard event loop",
            jobs=10_000,
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


async def fill(url: str, jobs: int, keys: int) -> None:
    """Make the tables and enqueue jobs; keys it has none."""
    import asyncpg
    from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
    from pgqueuer.queries import Queries  # type: ignore[import-not-found]

    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    for numbers in batches(jobs):
        payloads = [
            json.dumps({"number": number, "note": note(number)}, separators=(",", ":")).encode()
            for number in numbers
        ]
        await queries.enqueue(["deliver"] * len(payloads), payloads, [0] * len(payloads))
    await connection.close()


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
    run(fill, work)
