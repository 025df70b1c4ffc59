"""Procrastinate: a row a job, claimed one by one, with a lock for jobs that must run in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import batches, note, run
from bench.peers.tally import Tally

PEER = Peer(
    name="procrastinate",
    environment=PythonEnvironment("procrastinate"),
    unfinished="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
    configurations=(
        Configuration(
            name="default",
            why="one process, concurrency=1, finished jobs are kept",
            jobs=1_000,
        ),
        Configuration(
            name="best",
            why="its reference of App.run_worker_async (concurrency) and its guide 'Delete "
            "finished jobs' (delete_jobs=always); four processes, which were fastest, and "
            "uvloop, with which it was no slower",
            processes=4,
            jobs=2_000,
            settings={"concurrency": 10, "delete_jobs": "always", "uvloop": True},
        ),
    ),
)

WITH_LOCKS = replace(PEER.configurations[1], name="locks", jobs=2_000)


async def fill(url: str, jobs: int, keys: int) -> None:
    """Make the tables and defer jobs, with a lock each if there are keys."""
    app, deliver = _app(url, None)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for numbers in batches(jobs):
            # What is deferred together shares its lock, so keyed jobs are deferred one by one.
            if keys:
                for number in numbers:
                    one = deliver.configure(lock=f"customer-{number % keys}")
                    await one.defer_async(number=number, note=note(number))
            else:
                await deliver.batch_defer_async(
                    *({"number": number, "note": note(number)} for number in numbers)
                )


async def work(url: str, settings: dict[str, Any], tally: Tally) -> None:
    """Be a worker."""
    app, _ = _app(url, tally)
    async with app.open_async():
        await tally.begin()
        await app.run_worker_async(**settings)


def _app(url: str, tally: Tally | None) -> tuple[Any, Any]:
    import procrastinate  # type: ignore[import-not-found]

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="deliver")  # type: ignore[untyped-decorator]
    async def deliver(number: int, note: str) -> None:
        assert tally is not None
        tally.ran(number)

    return app, deliver


if __name__ == "__main__":
    run(fill, work)
