"""Random groups in memory, very many: ``python -m tests.groups.many --groups 10000``.

Each is a random graph with random failures and deaths, judged by ``tests.groups.world``. What is
stuck is retried and skipped until it has ended, and what is done is undone where that may be.
"""

from __future__ import annotations

import argparse
from collections import Counter
from random import Random

from inturn.groups.model import GroupState
from tests.groups.world import BrokenRule, World, random_graph

RETRIES_MAX = 50


def run_one(seed: int) -> list[str]:
    """Run a random group to its end; return what it went through."""
    random = Random(seed)
    after, steps = random_graph(random)
    world = World(after, steps, random, trouble=random.choice([0.2, 0.5, 1.0]))
    ends = [world.run().value]
    world.trouble = 0.0
    for _ in range(RETRIES_MAX):
        if world.group.state is not GroupState.STUCK:
            break
        if random.random() < 0.3:
            world.drop()
            world.run()
        for step in range(len(steps)):
            (world.retry if random.random() < 0.6 else world.skip)(step)
        ends.append(f"then {world.run()}")
    if world.group.state is GroupState.DONE and world.ask_undo():
        ends.append(f"then {world.run()}, as was asked")
    if world.group.state is GroupState.STUCK:
        raise BrokenRule("it stays stuck, however often it is retried")
    return ends


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=10_000)
    found: Counter[str] = Counter()
    for seed in range(parser.parse_args().groups):
        try:
            found.update(run_one(seed))
        except BrokenRule as error:
            raise SystemExit(f"group {seed}: {error}") from error
    for end, times in sorted(found.items()):
        print(f"{times:7,} {end}")
