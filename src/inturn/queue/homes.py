"""Where an app's calls go: to the home of its store, or to that of its guests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from inturn.model.clock import Clock
from inturn.model.errors import BadInput, StoreUnavailable
from inturn.model.forks import in_forked_child
from inturn.queue.bridge import Bridge
from inturn.queue.home import (
    ClosedMeanwhile,
    Home,
    HomeEnded,
    NotBegun,
    Opening,
    crossed,
    sent,
    waited,
)
from inturn.store.address import anchored, connect
from inturn.store.store import Store

Answer = TypeVar("Answer")

_everyone: WeakSet[Homes] = WeakSet()
_left_to_parents: list[Any] = []
"""What a forked child neither uses nor closes: its parent does, and would feel it."""


class Left(NamedTuple):
    """The homes that an app has left, and the store that they share, if it is not each its own."""

    homes: list[Home]
    shared: Opening


class Homes:
    """The homes of one store: on a loop of the user's, and on the bridge, for who comes from
    elsewhere.
    """

    def __init__(self, url: str, clock: Clock | None) -> None:
        self.url, self.clock = url, clock
        self.address = anchored(url)
        self._opening = self._connected()
        self._home: Home | None = None
        self._guests: Home | None = None
        self._settling_in = threading.Lock()
        self._bridge = Bridge()
        self._is_lost = False
        self._is_to_close = False  # as soon as nobody keeps it open
        _everyone.add(self)

    def use(self, url: str, clock: Clock | None) -> None:
        """Use another store, before the first is open, by another clock if one is given."""
        if any(home is not None and home.opening.is_open for home in (self._home, self._guests)):
            raise BadInput("the app's store is open: name another before the app is first used.")
        clock = clock or self.clock
        address = anchored(url)
        opening = Opening(connect(address, clock=clock))
        with self._settling_in:
            self._home = self._guests = None
            self._opening, self.url, self.address, self.clock = opening, url, address, clock

    @property
    def is_private(self) -> bool:
        """Whether nobody else can have the same store, whatever its URL: it is in memory."""
        return self._opening.store.is_private

    # Calls

    def store_here(self) -> Store | None:
        """Return the store if it is open and lives on this very loop, as nearly always: then
        nothing is to be arranged, and the loop where a call runs does not end before the call.
        """
        home = self._home
        if home is None or home.loop is not asyncio.get_running_loop() or not home.is_ready:
            return None
        return home.opening.store

    async def run(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Call the store, on the loop where it lives for who comes from this one."""
        if (store := self.store_here()) is not None:
            try:
                return await verb(store)
            except StoreUnavailable as error:
                if self.store_here() is store:
                    raise
                raise ClosedMeanwhile from error
        here = asyncio.get_running_loop()
        while True:
            home = self._place(here)
            try:
                if home.loop is here:
                    return await self._run_at(home, verb)
                return await crossed(home.loop, self._run_at(home, verb))
            except NotBegun:
                continue
            finally:
                home.leave()

    async def run_here(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Call the store on this very loop: with a connection of the caller's, which lives on it.

        If the store lives elsewhere, one more is opened for this call.
        """
        home = self._own_place(asyncio.get_running_loop())
        while home is not None:
            try:
                return await self._run_at(home, verb)
            except NotBegun:
                home = self._own_place(home.loop)
        opening = self._connected()
        try:
            return await verb(await opening.opened())
        finally:
            await opening.close()

    def sync(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine where the store lives, from code that is not async."""
        here = _running_loop()
        home = self._home
        is_own = home is not None and home.loop is here
        if is_own or (here is not None and self._bridge.is_loop(here)):
            work.close()
            raise BadInput(
                "this code runs on the app's own event loop, which waiting would stop. Use "
                "`await`, as in `await job.submit(…)`."
            )
        home = self._place(None)
        try:
            return waited(home.loop, work)
        finally:
            home.leave()

    async def lend(self) -> Store:
        """Return the store, open, to one who lives on this loop, which is its home from now on."""
        here = asyncio.get_running_loop()
        while True:
            try:
                return await self._run_at(self._lent(here), _itself)
            except NotBegun:
                continue

    @asynccontextmanager
    async def keep_open(self) -> AsyncIterator[None]:
        """Make this loop the store's home, and keep it open meanwhile, whoever closes the app."""
        home = self._lent(asyncio.get_running_loop(), keepers=1)
        try:
            yield
        finally:
            with self._settling_in:
                home.keepers -= 1
                home.is_lent = home.keepers > 0
                left = self._left() if self._is_to_close else None
            await self._close_left(left)

    async def _run_at(self, home: Home, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        if not home.opening.is_open:
            self._check_not_lost()
            await home.opening.opened()
        try:
            return await verb(home.opening.store)
        except StoreUnavailable as error:
            if home.opening.is_closed:
                raise ClosedMeanwhile from error
            raise

    # Places

    def _place(self, here: asyncio.AbstractEventLoop | None) -> Home:
        """Return where the store is used by who comes from this loop, or from none.

        Who comes leaves again: ``home.leave()``.
        """
        with self._settling_in:
            home = self._living_home()
            if home is None and self._guests is None and here is not None:
                home = self._home = Home(here, self._new_opening())
            if home is None or not (home.is_lent or home.loop is here):
                if self._guests is None:
                    opening = self._new_opening()
                    self._guests = Home(self._bridge.loop(), opening, self._bridge)
                home = self._guests
            home.enter()
            return home

    def _own_place(self, here: asyncio.AbstractEventLoop) -> Home | None:
        """Return a home whose store can be used on this very loop; None if it lives on another."""
        with self._settling_in:
            home = self._living_home()
            if home is None:
                home = self._home = Home(here, self._new_opening())
            return home if home.loop is here or not home.opening.store.is_bound_to_loop else None

    def _lent(self, here: asyncio.AbstractEventLoop, *, keepers: int = 0) -> Home:
        """Make a loop the store's home, where everyone finds it as long as that loop runs.

        ``keepers``: so many more who keep it open there.
        """
        with self._settling_in:
            home = self._living_home()
            if home is None or home.loop is not here:
                if home is not None and home.is_lent:
                    raise BadInput(
                        "the app's store is lent to a worker on another event loop. Run this one "
                        "there as well, or give it an App of its own."
                    )
                _retire(home)
                is_bridge = self._guests is not None and self._guests.loop is here
                home = self._guests if is_bridge else None
                home = self._home = home or Home(here, self._new_opening())
            home.is_lent = True
            home.keepers += keepers
            return home

    def _living_home(self) -> Home | None:
        """Return the home if its loop runs; else its connections died with it."""
        if self._home is not None and not self._home.loop.is_running():
            self._home = None
        return self._home

    def _connected(self) -> Opening:
        return Opening(connect(self.address, clock=self.clock))

    def _new_opening(self) -> Opening:
        """Return the store for one more loop: the same one, if it serves any."""
        return self._connected() if self._opening.store.is_bound_to_loop else self._opening

    # Ends

    async def close(self) -> None:
        """Close the store everywhere, when what is under way is finished.

        If someone keeps it open, it is closed when they leave, and this does not wait for them: it
        may be one of their handlers that closes it.
        """
        with self._settling_in:
            left = self._left()
        await self._close_left(left)

    def _left(self) -> Left | None:
        """Leave all homes, unless someone keeps the store open. Under the lock."""
        homes = [home for home in (self._home, self._guests) if home is not None]
        self._is_to_close = any(home.is_kept for home in homes)
        if self._is_to_close:
            return None
        self._home = self._guests = None
        left = Left(homes, self._opening)
        self._opening = self._connected()
        for home in homes:
            home.enter()
        return left

    async def _close_left(self, left: Left | None) -> None:
        """Close what was left, and end the app's own thread."""
        if left is None:
            return
        try:
            for home in left.homes:
                await _closed(home)
            await left.shared.close()
        finally:
            for home in left.homes:
                home.leave()
        self._stop_bridge()

    def _stop_bridge(self) -> None:
        """End the app's own thread, unless someone uses it."""
        with self._settling_in:
            bridge = self._bridge
            if self._guests is not None or not bridge.is_idle():
                return
            self._bridge = Bridge()  # who comes now starts another
        bridge.stop()  # not under the lock: what runs there yet might want it

    # Forks

    def begin_anew(self) -> None:
        """In a forked child: leave the store, the loops and the thread to the parent."""
        _left_to_parents.append((self._opening, self._home, self._guests, self._bridge))
        opening = self._opening
        self._is_lost = self._is_lost or (opening.is_open and opening.store.is_private)
        self._opening = self._connected()
        self._home = self._guests = None
        self._is_to_close = False
        self._settling_in, self._bridge = threading.Lock(), Bridge()

    def _check_not_lost(self) -> None:
        if self._is_lost:
            raise BadInput(
                "the app's store is in the memory of the process that this one was forked from, "
                "where no other can reach it. Use a file or PostgreSQL, or an App of its own."
            )


def _begin_all_anew() -> None:
    for homes in list(_everyone):
        homes.begin_anew()


in_forked_child(_begin_all_anew)


async def _closed(home: Home) -> None:
    """Close a home's own store, on its loop; if that has ended, the connections have as well."""
    if not home.opening.store.is_bound_to_loop:
        return  # it is shared, and its threads can be told from anywhere
    if home.loop is asyncio.get_running_loop():
        await home.opening.close()
    elif home.loop.is_running():
        with suppress(HomeEnded):
            await crossed(home.loop, home.opening.close())


def _retire(home: Home | None) -> None:
    """Close a store that nobody will come to any more, when what is under way is over."""
    if home is not None and home.opening.store.is_bound_to_loop:
        with suppress(HomeEnded):
            sent(home.loop, home.opening.close())


async def _itself(store: Store) -> Store:
    return store


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
