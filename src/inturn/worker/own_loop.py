"""An event loop for one attempt: it ends with the attempt, whatever the handler left there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

Answer = TypeVar("Answer")

LEFT_SECONDS_MAX = 1.0  # for each: tasks that are cancelled, generators that are closed
CLOSE_SECONDS_MAX = 5.0  # for connections, which may wait for their server

_ENDS_LOOP = (SystemExit, KeyboardInterrupt)  # asyncio lets them out of whatever task raises them


def on_own_loop(
    work: Coroutine[Any, Any, Answer], close: Callable[[], Coroutine[Any, Any, None]]
) -> Answer:
    """Run a coroutine as ``asyncio.run`` does, which would wait for whatever is left for ever.

    What is left on the loop is cancelled and has a moment to end; no thread is waited for. Then
    ``close`` gives up what must not outlive the loop. A task that exits or interrupts ends the
    work, and its error is raised.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    try:
        return runner.run(work)
    finally:
        parting = loop.create_task(_part(asyncio.all_tasks(loop), close))
        while not parting.done():
            with suppress(*_ENDS_LOOP):  # of one that takes its cancelling so
                loop.run_until_complete(parting)
        loop.close()  # waits for no thread


async def _part(
    left: set[asyncio.Task[Any]], close: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Cancel what is left on the loop, close what was used there, and wait for none of it long."""
    loop = asyncio.get_running_loop()
    for one in left:
        one.cancel()
    await _ended(left, LEFT_SECONDS_MAX)
    await _ended({loop.create_task(close())}, CLOSE_SECONDS_MAX)
    await _ended({loop.create_task(loop.shutdown_asyncgens())}, LEFT_SECONDS_MAX)


async def _ended(ending: set[asyncio.Task[Any]], seconds: float) -> None:
    """Wait until tasks have ended, but no longer than this, and tell of those that failed."""
    if not ending:
        return
    ended, _ = await asyncio.wait(ending, timeout=seconds)
    for one in ended:
        if not one.cancelled() and (error := one.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a task failed at the end", "exception": error, "task": one}
            )
