"""inturn itself, as the peers are measured: an app whose worker processes are ``inturn work``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import inturn
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, key, note
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

    version = inturn.__version__

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


ORDER = "jobs of a key run one at a time, in the order they were accepted"
LOSS = "run again when its lease has run out, at most as often as its attempts allow"

DEFAULT = Configuration(
    name="default",
    why="two processes of `inturn work`, no option given",
    processes=2,
    jobs=400_000,
)
KEYED = replace(DEFAULT, name="keyed", why="the same, with an order checker on", jobs=300_000)

OURS = Ours(
    name="inturn",
    environment=Here(),
    unfinished="select (select coalesce(sum(t.last - l.cursor + 1), 0) from inturn.lane l "
    "join inturn.tail t on t.lane = l.id where l.active) "
    "+ (select coalesce(sum(unsettled), 0) from inturn.lease) "
    "+ (select count(*) from inturn.parked) + (select count(*) from inturn.dead)",
    order=ORDER,
    loss=LOSS,
    configurations=(DEFAULT,),
    keyed=KEYED,
)

ON_SQLITE = Ours(
    name="inturn-sqlite",
    environment=Here(),
    broker="sqlite",
    unfinished="select (select coalesce(sum(t.last - l.cursor + 1), 0) from lane l "
    "join tail t on t.lane = l.id where l.active) "
    "+ (select coalesce(sum(unsettled), 0) from lease) "
    "+ (select count(*) from parked) + (select count(*) from dead)",
    order=ORDER,
    loss=LOSS,
    configurations=(replace(DEFAULT, jobs=300_000),),
    keyed=replace(KEYED, jobs=200_000),
)


async def prepare(url: str, keys: int) -> None:
    """Make the tables."""
    app.use(url)
    await app.migrate()


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    app.use(url)
    async with app:
        yield Submitter()


class Submitter:
    """What submits."""

    async def one(self, number: int) -> None:
        """Submit one job."""
        await deliver.submit(number, note(number))

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Submit jobs together."""
        await app.submit_many(
            [
                (deliver.using(key=key(number, keys)) if keys else deliver).call(
                    number, note(number)
                )
                for number in numbers
            ]
        )


if __name__ == "__main__":
    Program(producer=producer, prepare=prepare).run()
