"""A process whose event loop ends while jobs run: ``… URL END``, an end of those below.

All its jobs may fail once. It prints "ended" when its loop has.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import inturn
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.queue.job import Call
from inturn.worker.worker import Worker
from tests.worker.conftest import SECONDS_MAX, until

KEYS = [f"key {n}" for n in range(8)]  # in what order a loop cancels them is left to chance

_began: list[str] = []


async def returns_without_a_stop(app: App) -> None:
    calls = _jobs(app)
    executor = inturn.Executor(app=app, slots=len(KEYS))
    await executor.start()
    await _submit(executor, calls)


async def is_interrupted_twice(app: App) -> None:
    calls = _jobs(app)
    async with inturn.Executor(app=app, slots=len(KEYS)) as executor:
        await _submit(executor, calls)
        main = asyncio.current_task()
        assert main is not None
        await asyncio.wait([asyncio.create_task(_interrupt(main, executor))])


async def returns_beside_its_worker(app: App) -> None:
    await app.submit_many(_jobs(app))
    working = asyncio.create_task(Worker(app).run())
    await _all_began()
    assert not working.done()


async def returns_beside_a_thread(app: App) -> None:
    @app.around
    async def around(ctx: Context) -> AsyncIterator[None]:
        yield

    @app.job(attempts=1)
    def wait(key: str) -> None:
        _began.append(key)
        threading.Event().wait(SECONDS_MAX)

    await app.submit_many([wait.using(key=key).call(key) for key in KEYS])
    working = asyncio.create_task(Worker(app).run())
    await _all_began()
    assert not working.done()


async def cancels_all_there_is(app: App) -> None:
    await app.submit_many(_jobs(app))
    working = asyncio.create_task(Worker(app).run())
    await _all_began()
    _cancel_all(asyncio.current_task())
    await asyncio.wait([working])


async def has_a_job_that_cancels_all(app: App) -> None:
    async def cancel() -> None:
        _cancel_all()

    await _run_with_rude(app, cancel)


async def has_a_job_whose_task_cancels_all(app: App) -> None:
    async def cancel() -> None:
        _cancel_all()

    async def start() -> None:
        asyncio.create_task(cancel())  # noqa: RUF006

    await _run_with_rude(app, start)


async def has_a_job_that_cancels_all_others(app: App) -> None:
    async def cancel() -> None:
        _cancel_all(asyncio.current_task())

    await _run_with_rude(app, cancel)


def _jobs(app: App) -> list[Call[None]]:
    """Return calls of both sorts of jobs that run on the loop."""

    @app.job(attempts=1)
    async def plain(key: str) -> None:
        _began.append(key)
        await asyncio.sleep(SECONDS_MAX)

    @app.job(attempts=1)
    async def with_context(ctx: Context, key: str) -> None:
        _began.append(key)
        await asyncio.sleep(SECONDS_MAX)

    kinds = (plain, with_context)
    return [kinds[n % 2].using(key=key).call(key) for n, key in enumerate(KEYS)]


async def _run_with_rude(app: App, cancel: Callable[[], Awaitable[None]]) -> None:
    calls = _jobs(app)[1:]

    @app.job(attempts=1)
    async def rude() -> None:
        _began.append("rude")
        await _all_began()
        await cancel()
        await asyncio.sleep(SECONDS_MAX)

    await app.submit_many([*calls, rude.call()])
    await Worker(app).run()


async def _submit(executor: inturn.DurableExecutor, calls: list[Call[Any]]) -> None:
    for key, call in zip(KEYS, calls, strict=True):
        await executor.submit(key, call, timeout=SECONDS_MAX)
    await _all_began()


async def _all_began() -> None:
    await until(lambda: len(_began) == len(KEYS))


def _cancel_all(but: asyncio.Task[Any] | None = None) -> None:
    for one in asyncio.all_tasks() - {but}:
        one.cancel()


async def _interrupt(main: asyncio.Task[Any], executor: inturn.DurableExecutor) -> None:
    """Do what two Ctrl-C do: the first cancels the main task, the second strikes the loop."""
    main.cancel()
    await until(lambda: executor._is_stopped)

    def strike() -> None:
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(strike)


def main(url: str, end: str) -> None:
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(globals()[end](App(url)))
    print("ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
