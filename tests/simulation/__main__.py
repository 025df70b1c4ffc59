"""Run many seeds: ``python -m tests.simulation --seeds 2000 [--first N] [--store …] [--steps N]``.

On PostgreSQL the database must be one made for this: it is emptied before every seed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import traceback
from contextlib import suppress

from tests.simulation.run import STEPS, run
from tests.simulation.stores import SQLITE, Stores

FAILED_MAX = 5
PROGRESS_SECONDS = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--store", default=SQLITE, help="sqlite, or the URL of a spare database")
    parser.add_argument("--steps", type=int, default=STEPS, help="how long each run is")
    chosen = parser.parse_args()
    try:
        failed = asyncio.run(run_all(chosen.first, chosen.seeds, chosen.store, chosen.steps))
    except KeyboardInterrupt:
        print("\nstopped")
        return 130
    return 1 if failed else 0


async def run_all(first: int, count: int, url: str, steps: int) -> list[int]:
    """Run seeds and say which failed; stop after a few."""
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
    print(
        f"  replay: python -m tests.simulation --first {seed} --seeds 1 --steps {steps} "
        f"--store '{url}'\n",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
