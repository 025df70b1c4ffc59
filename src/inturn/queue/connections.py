"""An app's connections to its store: one on its event loop, one on a thread for all others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from inturn.model.clock import Clock
from inturn.model.errors import BadInput
from inturn.model.forks import in_forked_child
from inturn.queue.endings import Endings
from inturn.store.address import anchored, connect
from inturn.store.schema import Schema, in_order
from inturn.store.store import Store

Answer = TypeVar("Answer")
Loop = asyncio.AbstractEventLoop

LOOK_SECONDS = 0.05
"""How often a close that waits for another loop looks whether that loop still runs."""

_worker_loop: ContextVar[Loop | None] = ContextVar("inturn_worker_loop", default=None)
"""Where the worker lives whose handler runs here: what its context does is done there."""

_bridge: Loop | None = None
_bridge_lock = threading.Lock()
_everyone: WeakSet[Connections] = WeakSet()
_left_to_parent: list[Any] = []
"""What a forked child neither uses nor closes: its parent would feel it."""


class Declared(NamedTuple):
    """What code has said of a store so far: another one when it says more."""

    queues: Mapping[str, Mapping[str, Any]]
    schemas: tuple[Schema, ...]


class OpenStore:
    """A store, opened when it is first used. It is closed when nobody uses it any more.

    ``loop``: the one that its connections are bound to; None: they serve every loop.
    """

    def __init__(self, store: Store, loop: Loop | None) -> None:
        self.store, self.loop = store, loop
        self.written: Declared | None = None  # what it has been told; None: it is not open
        self.opening = asyncio.Lock()
        self.calls = 0  # that are under way
        self.keepers = 0  # workers that live on it
        self.is_to_close = False  # as soon as no worker lives on it
        self.is_left = False  # nobody comes any more: the last to leave closes it

    async def close(self) -> None:
        """Close it, on its loop. If that has ended, so have its connections."""
        if self.loop is None or self.loop is asyncio.get_running_loop():
            await self.store.close()
        elif self.loop.is_running():
            work = self.store.close()
            try:
                closing = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))
            except RuntimeError:  # it has ended this moment
                work.close()
                return
            while not closing.done() and self.loop.is_running():
                await asyncio.wait([closing], timeout=LOOK_SECONDS)


class Connections:
    """The open stores of one app.

    A SQLite store serves every loop. A PostgreSQL store is bound to one. The first loop that uses
    the app has its own, each on which it is opened, and each that a worker runs on. All others go
    through the bridge, a thread with a loop that is there as long as the process.
    """

    def __init__(self, url: str, clock: Clock | None) -> None:
        self._lock = threading.Lock()
        self.declared = Declared({}, ())
        self._by_loop: dict[Loop, OpenStore] = {}
        self._shared: OpenStore | None = None  # if it serves every loop
        self._endings: WeakKeyDictionary[Loop, Endings] = WeakKeyDictionary()
        self.use(url, clock)
        _everyone.add(self)

    # Declarations: written when the app is used next

    def declare_queue(self, name: str, settings: Mapping[str, Any]) -> None:
        """Say how a queue behaves, besides what was said of it before."""
        with self._lock:
            queues, schemas = self.declared
            said = {**queues.get(name, {}), **settings}
            if queues.get(name) != said:
                self.declared = Declared({**queues, name: said}, schemas)

    def declare_schema(self, schema: Schema) -> None:
        """Say which tables the app needs."""
        with self._lock:
            queues, schemas = self.declared
            if schema not in schemas:
                self.declared = Declared(queues, (*schemas, schema))

    # Stores

    def use(self, url: str, clock: Clock | None) -> None:
        """Go to a store, before one is open."""
        if any(one.written is not None for one in self._all()):
            raise BadInput("the app's store is open: name another before the app is first used.")
        self.url, self.address, self.clock = url, anchored(url), clock
        store = self.connect()
        self.is_private = store.is_private  # nobody else can have the same: it is in memory
        self._shared = None if store.is_bound_to_loop else OpenStore(store, None)
        self._by_loop = {}

    def connect(self) -> Store:
        """Return the store once more, not open."""
        return connect(self.address, clock=self.clock)

    # Calls

    async def run(
        self, verb: Callable[[Store], Awaitable[Answer]], *, is_own: bool = False
    ) -> Answer:
        """Call the store: the one of this loop, or through the bridge.

        ``is_own``: this loop is to have one, as a worker's has.
        """
        with self._lock:
            open_store = self._here(is_own=is_own)
            if open_store is not None:
                open_store.calls += 1
        if open_store is None:
            return await on_bridge(self.run(verb))
        try:
            store = open_store.store
            if open_store.written is not self.declared:
                store = await self._opened(open_store)
            return await verb(store)
        finally:
            await self._give_back(open_store)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Store]:
        """Lend this loop's own store, open, for as long as a block lasts."""
        with self._lock:
            open_store = self._here(is_own=True)
            assert open_store is not None
            open_store.calls += 1
        try:
            yield await self._opened(open_store)
        finally:
            await self._give_back(open_store)

    async def _opened(self, one: OpenStore) -> Store:
        """Return a store, open, with the app's tables, and told what code says of its queues."""
        if one.written is self.declared:
            return one.store
        if one.loop is None and asyncio.get_running_loop() is not bridge():
            return await on_bridge(self._opened(one))  # one loop: one lock serves all
        async with one.opening:
            declared = self.declared
            if one.written is None:
                await one.store.open()
            if one.written is not declared:
                for schema in in_order(declared.schemas):
                    await one.store.ensure(schema)
                await one.store.declare(declared.queues)
                one.written = declared
        return one.store

    async def _give_back(self, open_store: OpenStore) -> None:
        with self._lock:
            open_store.calls -= 1
            is_last = open_store.is_left and not open_store.calls
        if is_last:
            await open_store.close()

    def endings(self) -> Endings:
        """Return what waits for the ends of jobs on this loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._endings.get(loop)
            if found is None:
                found = self._endings[loop] = Endings(self.run)
            return found

    def sync(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine on the bridge, or on the loop of the worker whose handler this is, and
        wait for it in code that is not async.
        """
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            work.close()
            raise BadInput(
                "an event loop runs in this thread, which waiting would stop. Use `await`, as in "
                "`await job.submit(…)`."
            )
        loop = _worker_loop.get()
        loop = bridge() if loop is None or not loop.is_running() else loop
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    # Life

    @asynccontextmanager
    async def keep_open(self) -> AsyncIterator[None]:
        """Keep the store of this loop open meanwhile, whoever closes the app."""
        before = _worker_loop.set(asyncio.get_running_loop())
        with self._lock:
            open_store = self._here(is_own=True)
            assert open_store is not None
            open_store.keepers += 1
        try:
            yield
        finally:
            _worker_loop.reset(before)
            with self._lock:
                open_store.keepers -= 1
                unused = self._unused()
            for one in unused:
                await one.close()

    async def close(self) -> None:
        """Close the store everywhere, when what is under way has ended: whoever ends last does it.

        Where a worker lives on it, it is closed when the worker ends.
        """
        with self._lock:
            for one in self._all():
                one.is_to_close = True
            unused = self._unused()
        for one in unused:
            await one.close()

    def _unused(self) -> list[OpenStore]:
        """Leave the stores that are to be closed; return those that nobody uses any more."""
        left = [one for one in self._all() if one.is_to_close and not one.keepers]
        for one in left:
            one.is_left = True
        self._by_loop = {loop: one for loop, one in self._by_loop.items() if not one.is_left}
        if self._shared is not None and self._shared.is_left:
            self._shared = OpenStore(self.connect(), None)
        return [one for one in left if not one.calls]

    def _here(self, *, is_own: bool) -> OpenStore | None:
        """Return the store of this loop; None if it has none, and is to go through the bridge."""
        here = asyncio.get_running_loop()
        found = self._shared or self._by_loop.get(here)
        if found is None and (is_own or here is _bridge or not self._by_loop):
            living = {loop: one for loop, one in self._by_loop.items() if not loop.is_closed()}
            found = living[here] = OpenStore(self.connect(), here)
            self._by_loop = living
        return found

    def _all(self) -> list[OpenStore]:
        return [*self._by_loop.values(), *([] if self._shared is None else [self._shared])]

    def begin_anew(self) -> None:
        """In a forked child: leave what is open to the parent."""
        _left_to_parent.extend(self._all())
        self._lock = threading.Lock()
        self._by_loop = {}
        self._endings = WeakKeyDictionary()
        if self._shared is not None:
            self._shared = OpenStore(self.connect(), None)


def bridge() -> Loop:
    """Return the loop of the process's own thread, which runs for ever."""
    global _bridge
    with _bridge_lock:
        if _bridge is None:
            _bridge = asyncio.new_event_loop()
            threading.Thread(target=_bridge.run_forever, name="inturn-bridge", daemon=True).start()
        return _bridge


async def on_bridge(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine on the bridge, and await its answer here."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, bridge()))


def _begin_all_anew() -> None:
    global _bridge, _bridge_lock
    _left_to_parent.append(_bridge)
    _bridge, _bridge_lock = None, threading.Lock()
    for connections in list(_everyone):
        connections.begin_anew()


in_forked_child(_begin_all_anew)
