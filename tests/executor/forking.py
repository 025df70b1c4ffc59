"""A process with an executor whose first job forks, and whose child comes back: ``… def|async``.

It prints which jobs ran, each with whether that was in the process that began or in its child, and
at the end the code that the child has left with.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import inturn

PARENT = os.getpid()
CHILDREN: list[int] = []


def say(what: str) -> None:
    os.write(1, f"{what} in the {'parent' if os.getpid() == PARENT else 'child'}\n".encode())


def fork() -> None:
    if child := os.fork():
        CHILDREN.append(child)


def fork_and_fail() -> None:
    fork()
    if os.getpid() != PARENT:
        raise RuntimeError("the child failed")


async def main(how: str) -> None:
    forks = fork_and_fail if how.endswith("fails") else fork

    def job(function: Callable[[], None]) -> Any:
        if how.startswith("def"):
            return function

        async def on_loop() -> None:
            if how.startswith("late"):
                await asyncio.sleep(0)
            function()

        return (lambda: on_loop()) if how.startswith("lambda") else on_loop

    async with inturn.Executor(slots=2) as executor:
        await executor.submit("a", job(forks))
        for n in range(3):
            await executor.submit("a", job(partial(say, f"job {n} ran")))
    say("all ended")


def wait_for_children() -> None:
    for child in CHILDREN:
        _, status = os.waitpid(child, 0)
        print("child left with", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
    wait_for_children()
