"""Run many seeds: ``python -m tests.simulation --seeds 2000 [--first N] [--store …] [--steps N]``.

``--store postgres`` starts a server of its own, or uses the one in INTURN_TEST_POSTGRES, and makes
a database on it. A database that is given by its URL must be one made for this: it is emptied
before every seed.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.postgres_server import DatabaseServer, PostgresServer
from tests.simulation.run import STEPS, run
from tests.simulation.stores import SQLITE, Stores

POSTGRES = "postgres"

FAILED_MAX = 5
PROGRESS_SECONDS = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--store", default=SQLITE, help="sqlite, postgres, or a spare one's URL")
    parser.add_argument("--steps", type=int, default=STEPS, help="how long each run is")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin none after so many")
    chosen = parser.parse_args()
    try:
        with found(chosen.store) as url:
            failed = asyncio.run(
                run_all(chosen.first, chosen.seeds, url, chosen.steps, chosen.seconds)
            )
    except KeyboardInterrupt:
        print("\nstopped")
        return 130
    return 1 if failed else 0


@contextmanager
def found(store: str) -> Iterator[str]:
    """Give the url of the chosen store, from a server of our own if need be."""
    if store != POSTGRES:
        yield store
    elif url := os.environ.get("INTURN_TEST_POSTGRES"):
        with DatabaseServer(url).fresh_database() as fresh:
            yield fresh
    else:
        with PostgresServer() as server, server.fresh_database() as fresh:
            yield fresh


async def run_all(
    first: int, count: int, url: str, steps: int, seconds_max: float = math.inf
) -> list[int]:
    """Run seeds and say which failed; stop after a few, or when the time is over."""
    stores = Stores(url)
    failed: list[int] = []
    events = 0
    started = shown = time.monotonic()
    try:
        for seed in range(first, first + count):
            try:
                async with stores.empty() as (store, clock):
                    world = await run(store, clock, seed, steps)
                events += len(world.history)
            except Exception as error:
                failed.append(seed)
                report(seed, url, steps, error)
                if len(failed) == FAILED_MAX:
                    break
            if time.monotonic() - started > seconds_max:
                break
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                ran = seed - first + 1
                print(f"{ran:,} of {count:,} seeds, {ran / (shown - started):.0f}/s", flush=True)
    finally:
        with suppress(Exception):
            await stores.close()
    seconds = time.monotonic() - started
    said = f"{len(failed)} failed: {failed}" if failed else "every promise was kept"
    print(f"{seed - first + 1:,} seeds, {events:,} events in {seconds:.0f} s; {said}")
    return failed


def report(seed: int, url: str, steps: int, error: Exception) -> None:
    name = type(error).__name__
    print(f"\nseed {seed} failed: {name}\n{error}", file=sys.stderr)
    if name != "Violation":
        traceback.print_exception(error)
    store = SQLITE if url == SQLITE else POSTGRES
    print(
        f"  replay: python -m tests.simulation --first {seed} --seeds 1 --steps {steps} "
        f"--store {store}\n",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
