"""A worker that does not do what it says, in the process that calls one of these."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from inturn.model.job import LeasedJob
from inturn.worker.attempt import Attempts

Call = Callable[[], Awaitable[Any]]
LATER_SECONDS = 0.2


def twice() -> None:
    """Run each handler once more than it was asked to."""

    async def spoilt(call: Call) -> Any:
        await call()
        return await call()

    _spoil(spoilt)


def never() -> None:
    """Say that jobs are done, and run none."""

    async def spoilt(call: Call) -> None: ...

    _spoil(spoilt)


def early() -> None:
    """Say that jobs are done, and run them afterwards."""
    running: set[asyncio.Task[None]] = set()

    async def spoilt(call: Call) -> None:
        async def later() -> None:
            await asyncio.sleep(LATER_SECONDS)
            await call()

        task = asyncio.create_task(later())
        running.add(task)
        task.add_done_callback(running.discard)

    _spoil(spoilt)


def _spoil(spoilt: Callable[[Call], Awaitable[Any]]) -> None:
    """Put a handler that takes a moment, and has no key, into other hands."""
    attempts: Any = Attempts
    awaited = attempts._awaited

    def instead(
        self: Any, args: list[Any], kwargs: dict[str, Any], leased: LeasedJob
    ) -> Awaitable[Any]:
        def call() -> Awaitable[Any]:
            return awaited(self, args, kwargs, leased)  # type: ignore[no-any-return]

        if leased.kind != "plain" or leased.key is not None:
            return call()
        return spoilt(call)

    attempts._awaited = instead
