"""inturn itself, as the peers are measured: an app whose worker processes are ``inturn work``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.peer import Configuration, Peer
from bench.peers.program import batches, note, run
from bench.peers.tally import Tally
from inturn import App

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))
tally = Tally() if "BENCH_FOLDER" in os.environ else None


@app.job
async def deliver(number: int, note: str) -> None:
    """Do nothing, and count it."""
    if tally is not None:
        tally.ran(number)


@app.on_start
async def begin() -> None:
    """Wait for the other processes."""
    if tally is not None:
        await tally.begin()


class Here:
    """The environment that the bench itself runs in."""

    def install(self) -> Sequence[str]:
        """Return the command of this module."""
        return [sys.executable, "-m", "bench.peers.ours"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours(Peer):
    """Our side, whose worker is the command that users start."""

    def work_command(
        self, program: Sequence[str], url: str, configuration: Configuration
    ) -> list[str]:
        """Return the command that is one worker process."""
        command = Path(sys.executable).with_name("inturn")
        return [str(command), "work", "bench.peers.ours:app", "--store", url]


OURS = Ours(
    name="inturn",
    environment=Here(),
    unfinished="select (select coalesce(sum(t.last - l.cursor + 1), 0) from inturn.lane l "
    "join inturn.tail t on t.lane = l.id where l.active) "
    "+ (select coalesce(sum(unsettled), 0) from inturn.lease) "
    "+ (select count(*) from inturn.parked) + (select count(*) from inturn.dead)",
    configurations=(
        Configuration(
            name="default",
            why="two processes of `inturn work`, no option given",
            processes=2,
            jobs=400_000,
        ),
        Configuration(
            name="keyed",
            why="the same, with an order checker on",
            processes=2,
            jobs=200_000,
        ),
    ),
)


async def fill(url: str, jobs: int, keys: int) -> None:
    """Make the tables and submit jobs, with a key each if there are keys."""
    app.use(url)
    await app.migrate()
    async with app:
        keyed = [deliver.using(key=f"customer-{key}") for key in range(keys)] or [deliver]
        for numbers in batches(jobs):
            await app.submit_many(
                [keyed[number % len(keyed)].call(number, note(number)) for number in numbers]
            )


if __name__ == "__main__":
    run(fill)
