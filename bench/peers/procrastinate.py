"""Procrastinate: a row a job, claimed one by one, with a lock for jobs that must run in order."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, key, note
from bench.peers.tally import Tally

BEST = Configuration(
    name="best",
    why="its reference of App.run_worker_async (concurrency) and its guide 'Delete finished jobs' "
    "(delete_jobs=always); four processes, which were fastest, and uvloop, with which it was no "
    "slower",
    processes=4,
    jobs=2_000,
    settings={"concurrency": 10, "delete_jobs": "always", "uvloop": True},
)

PEER = Peer(
    name="procrastinate",
    environment=PythonEnvironment("procrastinate"),
    unfinished="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
    order="jobs with the same lock run one at a time, in the order they were deferred",
    loss="stays `doing`; a scheduled job of one's own has to look for stalled ones and retry them",
    configurations=(
        Configuration(
            name="default",
            why="one process, concurrency=1, finished jobs are kept",
            jobs=1_000,
        ),
        BEST,
    ),
    keyed=replace(BEST, name="locks"),
)


async def prepare(url: str, keys: int) -> None:
    """Make the tables."""
    app, _ = _app(url, None)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    app, deliver = _app(url, None)
    async with app.open_async():
        yield Deferrer(deliver)


@dataclass(frozen=True, slots=True)
class Deferrer:
    """What defers."""

    deliver: Any

    async def one(self, number: int) -> None:
        """Defer one job."""
        await self.deliver.defer_async(number=number, note=note(number))

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Defer a batch; what is deferred together shares its lock, so keyed jobs go one by one."""
        if not keys:
            await self.deliver.batch_defer_async(
                *({"number": number, "note": note(number)} for number in numbers)
            )
        for number in numbers if keys else ():
            one = self.deliver.configure(lock=key(number, keys))
            await one.defer_async(number=number, note=note(number))


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
    Program(producer=producer, prepare=prepare, work=work).run()
