"""What an app does when a worker starts and stops, and around each attempt."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from inturn.model.admissible import shown
from inturn.model.callables import yields
from inturn.model.errors import BadInput, HookFailed
from inturn.model.spelling import whole
from inturn.policy.raised import describe
from inturn.queue.context import Context

Hook = Callable[[], Awaitable[None] | None]
Around = Callable[[Context], AsyncIterator[None]]
AroundManager = Callable[[Context], AbstractAsyncContextManager[Any]]
Answer = TypeVar("Answer")


class Hooks:
    """The hooks of one app, each list in the order of declaration."""

    def __init__(self) -> None:
        self._starts: list[Hook] = []
        self._stops: list[Hook] = []
        self._arounds: list[AroundManager] = []

    @property
    def has_arounds(self) -> bool:
        """Whether something is to be done around each attempt."""
        return bool(self._arounds)

    def on_start(self, hook: Hook) -> None:
        """Add what is called before a worker's first claim."""
        self._starts.append(_checked_whole("on_start", hook))

    def on_stop(self, hook: Hook) -> None:
        """Add what is called after a worker's last settle."""
        self._stops.append(_checked_whole("on_stop", hook))

    def around(self, hook: Around | AroundManager) -> None:
        """Add what surrounds each attempt: the first declared is the outermost."""
        function = inspect.unwrap(_checked("around", hook))
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise BadInput(
                f"@app.around is for an async def that yields once, or what returns an async "
                f"context manager, and {function.__name__!r} is neither. Write `async def … yield`."
            )
        made: Any = asynccontextmanager(hook) if inspect.isasyncgenfunction(hook) else hook
        self._arounds.append(made)

    async def start(self) -> None:
        """Call what is to be called at the start; the first that fails is the last."""
        for hook in self._starts:
            try:
                await _called(hook)
            except BaseException as error:
                if _is_of_others(error):
                    raise
                said = _said(hook, "starts", error)
                raise HookFailed(f"{said} Nothing was claimed.") from error

    async def stop(
        self,
        _kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        _trace: object = None,
    ) -> None:
        """Call what is to be called at the end, the last declared first, whatever fails.

        ``error``: what ended the worker. That a hook failed at the start counts more than that
        another failed at the end.
        """
        failures: list[HookFailed] = []
        for hook in reversed(self._stops):
            try:
                await _called(hook)
            except BaseException as raised:
                if _is_of_others(raised):
                    raise
                failures.append(HookFailed(_said(hook, "stops", raised)))
                failures[-1].__cause__ = raised
        if failures and not isinstance(error, HookFailed):
            raise failures[0]

    async def surround(
        self, context: Context, call: Callable[[], Awaitable[Answer]]
    ) -> Answer | None:
        """Await a call inside everything that surrounds an attempt.

        None if something around it took in what the call raised, as a context manager may.
        """
        async with AsyncExitStack() as stack:
            for around in self._arounds:
                await stack.enter_async_context(around(context))
            return await call()
        return None


def _checked(name: str, hook: Any) -> Any:
    if not callable(hook):
        raise BadInput(f"@app.{name} is for functions, not {shown(hook)}.")
    return hook


def _checked_whole(name: str, hook: Any) -> Any:
    if yields(_checked(name, hook)):
        raise BadInput(
            f"the hook {_name(hook)} yields, so that calling it runs nothing of it. Write two "
            f"functions that return, for @app.on_start and for @app.on_stop."
        )
    return hook


def _said(hook: Any, moment: str, error: BaseException) -> str:
    said = f"the hook {_name(hook)}, to be called when a worker {moment}, failed: "
    return whole(said + describe(error))


def _is_of_others(error: BaseException) -> bool:
    """Whether the hook was cancelled or interrupted from outside; a ``SystemExit`` is its own."""
    current = asyncio.current_task()
    is_cancelled = current is not None and current.cancelling() > 0
    is_cancelling = isinstance(error, asyncio.CancelledError) and is_cancelled
    return is_cancelling or isinstance(error, KeyboardInterrupt)


def _name(hook: Any) -> str:
    return repr(getattr(hook, "__name__", shown(hook)))


async def _called(hook: Hook) -> None:
    answer = hook()
    if inspect.isawaitable(answer):
        await answer
