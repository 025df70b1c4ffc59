"""Where an app's store lives: on an event loop, and what becomes of calls when that loop ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from inturn.model.errors import StoreUnavailable
from inturn.queue.bridge import Bridge

if TYPE_CHECKING:
    from inturn.queue.app import App
    from inturn.store.store import Store

Answer = TypeVar("Answer")

LOOK_SECONDS = 0.05
"""How often someone who waits for another loop's answer looks whether that loop still runs."""


class HomeEnded(StoreUnavailable):
    """The event loop where a call ran has ended: nobody knows here whether it happened."""


class ClosedMeanwhile(HomeEnded):
    """The app was closed, by another thread, while a call was under way."""

    def __init__(self) -> None:
        super().__init__(
            "the app was closed while this was under way, so that it may have happened or not. "
            "Look, or call again."
        )


class NotBegun(HomeEnded):
    """It had ended before the call began: nothing happened, and it may be sent elsewhere."""


class Opening:
    """A store that is opened by whoever needs it first, on whichever loop; the others wait."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_open = False
        self.is_closed = False  # for good
        self._lock = threading.Lock()
        self._turn: Turn | None = None

    async def opened(self) -> Store:
        """Return the store, open; raise ``NotBegun`` once it was closed."""
        while not self.is_open:
            await self._in_turn(self._open)
        return self.store

    async def close(self) -> None:
        """Close the store for good."""
        while not self.is_closed:
            await self._in_turn(self._close)

    async def _open(self) -> None:
        if self.is_closed:
            raise NotBegun("the app was closed meanwhile, and nothing happened. Call again.")
        await self.store.open()
        self.is_open = True

    async def _close(self) -> None:
        self.is_open, self.is_closed = False, True
        await self.store.close()

    async def _in_turn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do a piece of work, or wait until the one that is under way is over, and look again."""
        mine = Turn(asyncio.get_running_loop())
        with self._lock:
            before = self._turn
            if before is not None and not before.loop.is_running():
                before = None  # its loop ended without letting it say so
            if before is None:
                self._turn = mine
        if before is not None:
            with suppress(HomeEnded):
                await answer(before.loop, before.over)
            return
        try:
            await work()
        finally:
            with self._lock:
                if self._turn is mine:
                    self._turn = None
            mine.over.set_result(None)


class Turn:
    """Someone's turn to open or close a store."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.over: Future[None] = Future()


class Home:
    """An event loop, and the store that is used there.

    A loop of the user's serves only itself, for others would wait in vain when it ends: they are
    served on the bridge, which stays. Unless the store was lent there, as to a worker, which lives
    long, and whose executor must be told on its own loop what it is to do.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, opening: Opening, bridge: Bridge | None = None
    ) -> None:
        self.loop, self.opening, self._bridge = loop, opening, bridge
        self.is_lent = False
        self.keepers = 0  # who live there, and need the store until they leave

    @property
    def is_kept(self) -> bool:
        """Whether someone lives there who needs the store, on a loop that has not ended."""
        return self.keepers > 0 and self.loop.is_running()

    @property
    def is_ready(self) -> bool:
        """Whether its store is open, and nobody counts who comes and goes."""
        return self._bridge is None and self.opening.is_open

    def enter(self) -> None:
        """Come in from another loop or thread: the bridge does not stop meanwhile."""
        if self._bridge is not None:
            self._bridge.enter()

    def leave(self) -> None:
        """Let the bridge stop, as far as this visitor is concerned."""
        if self._bridge is not None:
            self._bridge.leave()


async def crossed(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine on another loop, and await its answer here."""
    future = sent(loop, work)
    try:
        return await answer(loop, future)
    except asyncio.CancelledError:
        future.cancel()
        raise


async def left_to(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], *, seconds_max: float
) -> None:
    """Run a coroutine on another loop, also if this is cancelled, and wait for its end a while."""
    with suppress(HomeEnded, TimeoutError):
        async with asyncio.timeout(seconds_max):
            await answer(loop, sent(loop, work))


def waited(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine on a loop of another thread, and wait for its answer in this one."""
    future = sent(loop, work)
    while True:
        try:
            return _answered(future, LOOK_SECONDS)
        except TimeoutError:
            if future.done():  # meanwhile, or it is the coroutine's own
                return _answered(future)
            if not loop.is_running():
                raise _ended() from None
        except KeyboardInterrupt:
            future.cancel()
            raise


def sent(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Answer]) -> Future[Answer]:
    """Begin a coroutine on a loop of another thread."""
    try:
        return asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError as error:  # it was closed a moment ago
        work.close()
        raise NotBegun("the app's event loop has ended. Nothing happened: call again.") from error


async def answer(loop: asyncio.AbstractEventLoop, future: Future[Answer]) -> Answer:
    """Await what is to come from another loop; raise ``HomeEnded`` if that ends before."""
    waiting = asyncio.wrap_future(future)
    # Who is cancelled as an error comes does not look at it. Nor is it to be cancelled here: others
    # may wait for the same answer.
    waiting.add_done_callback(_looked_at)
    while not waiting.done():
        await asyncio.wait([waiting], timeout=LOOK_SECONDS)
        if not waiting.done() and not loop.is_running():
            raise _ended()
    if waiting.cancelled():  # as a loop does with all that runs on it when it ends
        raise _ended()
    return waiting.result()


async def repeated(app: App, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
    """Call the store with what may happen twice: again, if the loop where it ran has ended."""
    while True:
        try:
            return await app.homes.run(verb)
        except HomeEnded:
            await asyncio.sleep(LOOK_SECONDS)


def repeated_sync(app: App, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
    """Run what may happen twice from code that is not async."""
    while True:
        try:
            return app.sync(work())
        except HomeEnded:
            time.sleep(LOOK_SECONDS)


def _answered(future: Future[Answer], seconds: float | None = None) -> Answer:
    try:
        return future.result(seconds)
    except BaseException:
        if future.cancelled():
            raise _ended() from None
        raise


def _looked_at(future: asyncio.Future[Any]) -> None:
    """Have asyncio not complain that nobody asked for an error."""
    if not future.cancelled():
        future.exception()


def _ended() -> HomeEnded:
    return HomeEnded(
        "the event loop where the app lives has ended before it answered, so that this may have "
        "happened or not. Look, or call again."
    )
