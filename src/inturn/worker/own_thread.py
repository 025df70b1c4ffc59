"""A thread for one call, awaited: for a ``def`` handler that something async surrounds."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

Answer = TypeVar("Answer")


async def on_own_thread(call: Callable[[], Answer]) -> Answer:
    """Make a call on a thread of its own, in a copy of this context, and await its answer.

    The thread does not keep the process from ending, which those of a pool would.
    """
    loop = asyncio.get_running_loop()
    # What was raised is a part of the answer: a future would not take all of it.
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()

    def run() -> None:
        answer: tuple[Any, BaseException | None]
        try:
            answer = (context.run(call), None)
        except BaseException as error:
            answer = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
            loop.call_soon_threadsafe(end, answer)

    def end(answer: tuple[Any, BaseException | None]) -> None:
        if not ended.done():
            ended.set_result(answer)

    threading.Thread(target=run, name="inturn-surrounded", daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]
