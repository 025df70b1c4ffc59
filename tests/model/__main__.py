"""Explore larger worlds: ``python -m tests.model --producers 3 --workers 2``.

Every combination of steps is tried, so a world a little larger takes far longer. Ctrl-C stops.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.model.explorer import explore
from tests.model.rules import RULES, Batch, Bounds, Rules

NUMBER_MAX = 8  # lanes are named by letters, and nobody lives to see the end of larger worlds


def main() -> int:
    chosen = _parser().parse_args()
    try:
        return show(_bounds(chosen), _rules(chosen))
    except KeyboardInterrupt:
        print("\nstopped; no promise was broken so far (who can get stuck is asked at the end)")
        return 130


def show(bounds: Bounds, rules: Rules) -> int:
    """Explore a world and say what was found in it."""
    started = time.monotonic()

    def progress(states: int, left: int) -> None:
        seconds = time.monotonic() - started
        print(f"{states:,} states in {seconds:.0f} s, {left:,} of them to go on from", flush=True)

    explored = explore(bounds, rules, progress=progress)
    print(
        f"{explored.states:,} states, {explored.moves:,} steps between them,"
        f" the longest way {explored.depth} steps; {explored.seconds:.1f} s"
    )
    if explored.counterexample is None:
        print("every promise was kept, and every state can come to a good end")
        return 0
    print(explored.counterexample)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    for option, default, said in (  # what may be left out has 0, of all else there is some
        ("producers", 2, "how many of them"),
        ("batches", 1, "transactions of each producer"),
        ("jobs", 1, "jobs of each transaction, for each lane"),
        ("repeatable-read", 0, "how many producers are at that level"),
        ("lanes", 1, "each transaction adds to all of them"),
        ("workers", 2, "how many of them"),
        ("claim", 2, "the most jobs of a claim"),
        ("followers", 0, "jobs that workers enqueue in the transactions that settle"),
        ("attempts", 1, "how often a job may be tried"),
    ):
        number = _number(0 if default == 0 else 1)
        parser.add_argument(f"--{option}", type=number, metavar="N", default=default, help=said)
    for fault in ("crashes", "stalls", "rollbacks", "failures", "turns"):
        parser.add_argument(f"--no-{fault}", action="store_true", help="let there be none")
    parser.add_argument("--without", choices=RULES, metavar="RULE", help=", ".join(RULES))
    return parser


def _number(least: int) -> Callable[[str], int]:
    def number(said: str) -> int:
        if not said.isdecimal() or not least <= int(said) <= NUMBER_MAX:
            raise argparse.ArgumentTypeError(f"{said!r} is not {least} to {NUMBER_MAX}")
        return int(said)

    return number


def _bounds(chosen: argparse.Namespace) -> Bounds:
    jobs = tuple((lane, chosen.jobs) for lane in range(chosen.lanes))
    producers = tuple(
        (Batch(jobs=jobs, repeatable_read=number < chosen.repeatable_read),) * chosen.batches
        for number in range(chosen.producers)
    )
    return Bounds(
        producers=producers,
        workers=chosen.workers,
        lanes=chosen.lanes,
        jobs_max=chosen.claim,
        attempts_max=chosen.attempts,
        followers=chosen.followers,
        crashes=not chosen.no_crashes,
        stalls=not chosen.no_stalls,
        rollbacks=not chosen.no_rollbacks,
        failures=not chosen.no_failures,
        turns=not chosen.no_turns,
    )


def _rules(chosen: argparse.Namespace) -> Rules:
    return Rules().without(chosen.without) if chosen.without else Rules()


if __name__ == "__main__":
    sys.exit(main())
