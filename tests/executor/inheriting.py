"""A process that forks while an executor of its has jobs: ``… memory|URL VERB``.

The child calls a verb of what it has inherited, and prints what came of it; then the parent prints
what became of the jobs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import inturn

SECONDS_MAX = 20.0  # for a child that hangs, before it says so


async def fine() -> str:
    return "ran"


class Inherited:
    """An executor with a job that runs, one that waits behind it, and one that has ended."""

    def __init__(self, url: str) -> None:
        self.lock: AbstractContextManager[Any] = nullcontext()
        if url == "memory":
            self.executor: Any = inturn.Executor(slots=2)
            self.lock = self.executor._turns.lock
            self.gate = asyncio.Event()
            self.held: Any = self.gate.wait
            self.job: Any = lambda: fine
        else:
            app = inturn.App(url)
            self.gate = asyncio.Event()
            self.held, self.job = app.job(self.wait).call(), app.job(fine).call
            self.executor = inturn.Executor(app=app, slots=2)

    async def wait(self) -> bool:
        return await self.gate.wait()

    async def fill(self) -> None:
        self.runs = await self.executor.submit("a", self.held)
        self.waits = await self.executor.submit("a", self.job())
        self.ended = await self.executor.submit("b", self.job())
        await self.ended.result(SECONDS_MAX)

    async def submit(self) -> object:
        return await self.executor.submit("c", self.job())

    async def submit_many(self) -> object:
        return await self.executor.submit_many([("c", self.job())])

    async def submit_sync(self) -> object:
        return await asyncio.to_thread(self.executor.submit_sync, "c", self.job())

    async def run(self) -> object:
        return await self.executor.run("c", self.job())

    async def barrier(self) -> object:
        return await self.executor.barrier("a")

    async def stop(self) -> object:
        return await self.executor.stop()

    async def stop_now(self) -> object:
        return await self.executor.stop(0)

    async def enter(self) -> object:
        async with self.executor:
            return "entered"

    async def resume(self) -> object:
        return self.executor.resume("a")

    async def halted(self) -> object:
        return self.executor.halted()

    async def result(self) -> object:
        return await self.waits.result()

    async def result_in_time(self) -> object:
        return await self.waits.result(SECONDS_MAX / 2)

    async def result_sync(self) -> object:
        return await asyncio.to_thread(self.waits.result_sync)

    async def cancel(self) -> object:
        return self.waits.cancel()

    async def cancel_running(self) -> object:
        return self.runs.cancel()

    async def read(self) -> object:
        return await self.ended.result(), self.ended.result_sync(), self.ended.cancel()


def call(verb: Callable[[], Coroutine[Any, Any, object]]) -> str:
    async def in_time() -> object:
        async with asyncio.timeout(SECONDS_MAX):
            return await verb()

    try:
        return repr(asyncio.run(in_time()))
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def in_child(verb: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Fork, call a verb in the child on a thread and a loop of its own, and leave."""
    if child := os.fork():
        return child
    said: list[str] = ["it hangs"]
    thread = threading.Thread(target=lambda: said.insert(0, call(verb)), daemon=True)
    thread.start()
    thread.join(SECONDS_MAX + 5)
    os.write(1, f"child: {said[0]}\n".encode())
    os._exit(0)


async def main(url: str, verb: str) -> None:
    inherited = Inherited(url)
    async with inherited.executor:
        await inherited.fill()
        with inherited.lock:  # as if another thread were at it
            child = in_child(getattr(inherited, verb))
        await asyncio.to_thread(os.waitpid, child, 0)
        inherited.gate.set()
        print("parent:", await inherited.runs.result(), await inherited.waits.result())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
