"""The writer: one thread that owns the writing connection, where calls share a commit."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, cast

from inturn.model.clock import Clock
from inturn.model.errors import StoreReplaced
from inturn.store.sqlite.faults import not_open, own_transaction, store_error, transaction_over
from inturn.store.sqlite.file import OpenFile
from inturn.store.sqlite.rows import Micros, micros

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection, Micros], Result]

GROUP_CALLS_MAX = 256


class Call(Generic[Result]):
    """One call that waits for its turn, and the future its caller awaits."""

    def __init__(self, work: Work[Result]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Result] = self.loop.create_future()
        self.result: Result | None = None
        self.error: BaseException | None = None
        self._taken = threading.Lock()
        self._left: asyncio.Future[None] | None = None  # set by a caller that was cancelled
        self._resolved = False

    def take(self) -> bool:
        """Say whether the asker is the first: the writer, to run it, or the caller, to withdraw."""
        return self._taken.acquire(blocking=False)

    async def outcome(self) -> Result:
        """Wait for the result. A caller that is cancelled withdraws the call, if it has not begun.

        If it has, its end is awaited, which is near: what is cancelled has happened or never will.
        """
        try:
            return await self.future
        except asyncio.CancelledError:
            if not self.take() and not self._resolved:
                self._left = self.loop.create_future()
                await self._left
            raise

    def resolve(self) -> None:
        """Hand the caller what became of the call; runs on the caller's loop."""
        self._resolved = True
        if self._left is not None and not self._left.done():
            self._left.set_result(None)
        if self.future.done():
            return  # the caller was cancelled and is no longer there
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(cast(Result, self.result))


class Turn:
    """The writer's exclusive use by one caller, whose works it runs one after another."""

    def __init__(self) -> None:
        self.works: SimpleQueue[Call[Any] | None] = SimpleQueue()  # None ends the turn
        self.taken = Call[None](lambda connection, now: None)
        self.is_ending = False  # its caller waits for nothing but its end
        self.has_ended = False

    async def run(self, work: Work[Result]) -> Result:
        """Run a work within the turn and return its result."""
        call = Call(work)
        self.works.put(call)
        if self.has_ended and call.take():  # meanwhile, on another thread: nobody will look at it
            raise transaction_over()
        return await call.outcome()

    async def run_last(self, work: Work[Result]) -> Result:
        """Run the work that ends a transaction. Others may wait for the writer from now on."""
        self.is_ending = True
        return await self.run(work)

    def end(self) -> None:
        """Give the writer back; a transaction left open is rolled back."""
        self.is_ending = self.has_ended = True
        self.works.put(None)


_held: ContextVar[tuple[Turn, ...]] = ContextVar("inturn_held_turns", default=())
"""The turns, of different writers, inside which the code here runs. A task inherits them from who
starts it: who holds a turn may be waiting for that task, and nobody can tell."""


class Writer:
    """Takes the calls that wait, runs them in one transaction, and answers after its commit.

    A lone call is not held up for company: a group is whatever came while the commit before it was
    on its way to the disk. Each call of a group has a savepoint of its own.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        clock: Clock,
        committed: Callable[[sqlite3.Connection], None],
    ) -> None:
        self._connection, self._path, self._clock = connection, path, clock
        self._committed = committed
        self._file = OpenFile(path)
        self._calls: SimpleQueue[Call[Any] | Turn | None] = SimpleQueue()
        self._turn: Turn | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"inturn writer {path}", daemon=True)
        self._thread.start()

    async def run(self, work: Work[Result]) -> Result:
        """Run a work in a transaction and return its result once that is committed."""
        self._check_free()
        call = Call(work)
        self._calls.put(call)
        return await call.outcome()

    def stir(self) -> None:
        """Commit nothing, soon, so that those who are told of commits look around."""
        self._calls.put(Call[None](lambda connection, now: None))

    async def take_turn(self) -> Turn:
        """Wait for the exclusive use of the writer."""
        self._check_free()
        turn = Turn()
        self._calls.put(turn)
        try:
            await turn.taken.outcome()
        except BaseException:
            turn.end()
            raise
        _held.set((*(one for one in _held.get() if not one.has_ended), turn))
        return turn

    def owned_turn(self) -> Turn | None:
        """Return the turn that is held by the running task, or was by its creator, or None."""
        turn = self._turn
        if turn is None or turn.is_ending or turn not in _held.get():
            return None
        return turn

    def close(self) -> None:
        """Finish the calls that came before this one and close the connection. Blocks."""
        self._closing = True
        self._calls.put(None)
        self._thread.join()

    def _check_free(self) -> None:
        if self._closing:
            raise not_open(self._path)
        if self.owned_turn() is not None:
            raise own_transaction(self._path)

    def _run(self) -> None:
        following: Call[Any] | Turn | None = None
        while True:
            first = following or self._calls.get()
            following = None
            if first is None:
                break
            if isinstance(first, Turn):
                self._serve(first)
                continue
            group, following, ends = self._gather(first)
            self._run_group(group)
            if ends:
                break
        self._connection.close()
        self._file.close()
        self._refuse_rest()

    def _gather(self, first: Call[Any]) -> tuple[list[Call[Any]], Turn | None, bool]:
        """Return the calls that wait now, the turn that comes after them, and whether to stop."""
        group = [first]
        while len(group) < GROUP_CALLS_MAX:
            try:
                call = self._calls.get_nowait()
            except Empty:
                break
            if call is None:
                return group, None, True
            if isinstance(call, Turn):
                return group, call, False
            group.append(call)
        return group, None, False

    def _run_group(self, calls: list[Call[Any]]) -> None:
        try:
            if not self._commit_together(calls):
                # Something took the whole transaction down, such as a full disk. None of it
                # happened, so each call may have its own: those that can succeed do.
                for call in calls:
                    call.result = call.error = None
                    self._commit_together([call], begun=True)
        except sqlite3.Error as error:  # not even a rollback is possible: tell all, and go on
            for call in calls:
                call.error = store_error(error, self._path)
        answer(calls)

    def _commit_together(self, calls: list[Call[Any]], *, begun: bool = False) -> bool:
        """Run calls in one transaction; return False if it failed and they should go one by one."""
        connection = self._connection
        try:
            connection.execute("begin immediate")
        except sqlite3.Error as error:
            for call in calls:
                call.error = store_error(error, self._path)
            return True
        if not begun:
            calls[:] = [call for call in calls if call.take()]
        alone = len(calls) == 1
        try:
            for call in calls:
                self._run_call(call, alone)
                if not connection.in_transaction:  # SQLite rolled all of it back by itself
                    return alone
            if alone and calls[0].error is not None:
                connection.execute("rollback")
                return True
            self._file.check()
            connection.execute("commit")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("rollback")
            calls[0].error = store_error(error, self._path)
            return alone
        except StoreReplaced as error:
            connection.execute("rollback")
            for call in calls:
                call.error = error
            return True
        self._committed(connection)
        return True

    def _run_call(self, call: Call[Any], alone: bool) -> None:
        connection = self._connection
        if not alone:
            connection.execute("savepoint call")
        try:
            call.result = call.work(connection, micros(self._clock.now()))
        except sqlite3.Error as error:
            call.error = store_error(error, self._path)
        except Exception as error:
            call.error = error
        if not alone and connection.in_transaction:
            if call.error is not None:
                connection.execute("rollback to call")
            connection.execute("release call")

    def _serve(self, turn: Turn) -> None:
        """Run one caller's works until it ends its turn."""
        if not turn.taken.take():
            return
        self._turn = turn
        answer([turn.taken])
        while (call := turn.works.get()) is not None:
            if not call.take():
                continue  # its caller was cancelled, and counts on it that it has not happened
            try:
                self._file.check()
                call.result = call.work(self._connection, micros(self._clock.now()))
            except Exception as error:
                call.error = error
            if not self._connection.in_transaction and call.error is None:
                self._committed(self._connection)
            answer([call])
        if self._connection.in_transaction:
            self._connection.execute("rollback")
        self._turn = None

    def _refuse_rest(self) -> None:
        """Answer the calls that slipped in behind the last one."""
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            call = call.taken if isinstance(call, Turn) else call
            if call is not None:
                call.error = not_open(self._path)
                answer([call])


def answer(calls: Iterable[Call[Any]]) -> None:
    """Resolve the callers' futures, with one crossing into each of their loops."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call[Any]]] = {}
    for call in calls:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, finished in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve_all, finished)
        except RuntimeError:
            continue  # the loop is closed, and nobody waits any more


def _resolve_all(calls: list[Call[Any]]) -> None:
    for call in calls:
        call.resolve()
