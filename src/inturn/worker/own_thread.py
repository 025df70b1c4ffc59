"""A thread for one call, awaited: for a ``def`` handler that something async surrounds."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

Answer = TypeVar("Answer")


async def on_own_thread(call: Callable[[], Answer]) -> Answer:
    """Make a call on a thread of its own, in a copy of this context, and await its answer.

    The thread does not keep the process from ending, which those of a pool would.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Answer] = loop.create_future()
    context = copy_context()

    def answer(value: Answer | None, error: BaseException | None) -> None:
        if ended.cancelled():
            return
        if error is None:
            ended.set_result(value)  # type: ignore[arg-type]
        elif isinstance(error, StopIteration):  # a future refuses it
            ended.set_exception(RuntimeError(f"it raised {error!r}"))
        else:
            ended.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(call)
        except BaseException as raised:  # whatever it is, it is the answer
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
            loop.call_soon_threadsafe(answer, value, error)

    threading.Thread(target=run, name="inturn-surrounded", daemon=True).start()
    return await ended
