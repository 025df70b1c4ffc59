"""An app on a private store: what a test submits there stays there, and runs when it says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from inturn.model.errors import BadInput
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.queue.homes import Homes
from inturn.queue.job import Job
from inturn.store.protocol import Store
from inturn.testing.clock import HandClock
from inturn.testing.drain import Drain, raise_first
from inturn.testing.drained import Drained
from inturn.testing.ledger import Ledger
from inturn.testing.private_store import PrivateStore
from inturn.testing.rehearsal import Rehearsed, rehearse, rehearsed_context
from inturn.testing.submission import Expected, Submission

P = ParamSpec("P")
R = TypeVar("R")
Answer = TypeVar("Answer")

MEMORY = "sqlite:///:memory:"
TIMEOUT_SECONDS = 10.0


def private(
    app: App | None = None, *, store: str = MEMORY, clock: HandClock | None = None
) -> Sandbox:
    """Put an app on a private store for the length of a test: use ``with``, or ``async with``.

    Without an app there is a new one, ``sandbox.app``. ``store`` is the address of one that is
    empty, if it is not to be in memory.
    """
    return Sandbox(app, store=store, clock=clock)


class Sandbox:
    """An app on a private store, with a clock that is moved by hand.

    Everything of the app goes to the private store while the sandbox is entered: its jobs'
    ``submit``, its tickets, its workers. Afterwards the app is as it was. Entered again, it begins
    anew: nothing has been submitted; only the clock goes on, for time does not go back.

    Entered by ``async with`` its handlers run on the loop it is used on, entered by ``with`` on
    that of a thread. ``settles_late``: entered by ``with`` it is for a test that is async, on whose
    loop, which does not run yet, they are to run.
    """

    def __init__(
        self,
        app: App | None,
        *,
        store: str,
        clock: HandClock | None = None,
        settles_late: bool = False,
    ) -> None:
        self.clock = clock or HandClock()
        self.app = App(store, clock=self.clock) if app is None else app
        self._store = store
        self._begin()
        self._before: Homes | None = None  # the app's own, while entered
        self._has_been_left = False
        # A store in memory serves any loop, so that it can wait for the first that asks.
        self._settles_late = settles_late and store == MEMORY

    # What was submitted

    def submitted(
        self, job: Job[Any, Any] | None = None, /, *args: Any, **kwargs: Any
    ) -> list[Submission]:
        """Return the jobs that were accepted, in order: all, those of a job, or those that also
        have these arguments. What ``job.using(…)`` says must be so too.
        """
        found = list(self._ledger.submissions.values())
        if job is None:
            return found
        expected = Expected(job, args, kwargs)
        return [one for one in found if one.kind == expected.kind and not expected.differences(one)]

    def assert_submitted(self, job: Job[Any, Any], /, *args: Any, **kwargs: Any) -> Submission:
        """Return the first job submitted with these arguments, and whatever others; fail if there
        is none: ``assert_submitted(send.using(key="customer-7", delay=30), to="a@b.c")``.
        """
        __tracebackhide__ = True
        found = self.submitted(job, *args, **kwargs)
        if not found:
            raise AssertionError(Expected(job, args, kwargs).complaint(self.submitted()))
        return found[0]

    def assert_not_submitted(self, job: Job[Any, Any], /, *args: Any, **kwargs: Any) -> None:
        """Fail if the job was submitted, with these arguments if any are given."""
        __tracebackhide__ = True
        found = self.submitted(job, *args, **kwargs)
        if found:
            times = "once" if len(found) == 1 else f"{len(found)} times"
            shown = "\n".join(f"    {one}" for one in found[:10])
            raise AssertionError(f"{Expected(job, args, kwargs)} was submitted, {times}:\n{shown}")

    # Running it

    async def drain(
        self,
        *,
        advance: float | str = 0.0,
        raising: bool = True,
        slots: int = 1,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Drained:
        """Run everything that may run now on a worker, until nothing is left; say what ran.

        To the app's start and stop hooks it is one worker, however much time passes.

        - ``advance``: let so much time pass meanwhile, from one job that becomes due to the next;
        - ``raising``: raise the first error that a handler raised, when all has run. ``RetryLater``
          is none. With False errors are in what is returned;
        - ``slots``: how many jobs may run at once. One, so that a test runs the same way every
          time; a handler that waits for another job needs more;
        - ``timeout``: so many real seconds may it take, else ``DrainTimeout`` says what runs on.
        """
        ends_at = self.clock.later(advance)
        self._check_entered()
        drain = Drain(self.app, self._ledger, self.clock, slots=slots, timeout=timeout)
        drained = await self.app.run(lambda store: drain.run(store, ends_at))
        if raising:
            raise_first(drained)
        return drained

    def drain_sync(
        self,
        *,
        advance: float | str = 0.0,
        raising: bool = True,
        slots: int = 1,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Drained:
        """``drain`` for tests that are not async."""
        return self._sync(
            self.drain(advance=advance, raising=raising, slots=slots, timeout=timeout)
        )

    async def run(self, job: Job[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a job's handler as a worker would, without submitting it, and return its result.

        Arguments and result are written and read as a store would keep them, and what surrounds
        an attempt, ``@app.around``, surrounds it. What the handler raises is raised. Its context
        says that this is the first attempt. No worker starts, so no start hook is called, and
        nobody ends a handler at its timeout.

        Raises ``ResultLost`` if what it returned could not be kept, and ``Reject`` if that is a
        coroutine, of which nothing has run.
        """
        return (await self._rehearsed(job, args, kwargs)).result()

    def run_sync(self, job: Job[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """``run`` for tests that are not async."""
        return self._sync(self._rehearsed(job, args, kwargs)).result()

    async def _rehearsed(
        self, job: Job[Any, R], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Rehearsed[R]:
        self._check_entered()
        return await self.app.run(lambda _: rehearse(job, self.app, args, kwargs))

    def context(self, job: Job[Any, Any], *, attempt: int = 1) -> Context:
        """Return a context for a call of the handler by hand: ``send(context, to="a@b.c")``."""
        return rehearsed_context(job, self.app, attempt=attempt)

    # Beginning and ending

    def __enter__(self) -> Sandbox:
        if _runs_a_loop():
            raise BadInput("this is async code: enter the sandbox with `async with`.")
        self._enter()
        if self._settles_late:
            return self
        try:
            self._sync(self._check_empty())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        asyncio.run(self._homes.end())

    async def __aenter__(self) -> Sandbox:
        self._enter()
        try:
            await self._check_empty()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        await self._homes.end()

    def _begin(self) -> None:
        """Have a store that nobody has used, and a ledger in which nothing is written."""
        self._ledger = Ledger(self.clock, self.app.jobs.get)
        self._homes = PrivateHomes(self._store, self.clock, self._ledger)

    def _enter(self) -> None:
        """Have the app's calls go to the private store."""
        if self._before is not None:
            raise BadInput("this sandbox is in use already. Make another: private(app).")
        if self._has_been_left:
            self._begin()
        self._before, self.app.homes = self.app.homes, self._homes

    def _leave(self) -> None:
        assert self._before is not None
        self.app.homes, self._before = self._before, None
        self._has_been_left = True  # what was submitted can still be looked at, until the next time

    async def _check_empty(self) -> None:
        """Refuse a store that is someone's: a drain would run what waits there."""
        if self._homes.url == MEMORY:
            return
        await self.app.migrate()
        page = await self.app.run(lambda store: store.jobs(rows_max=1))
        if page.rows:
            raise BadInput(
                f"the store {self._homes.url.split('@')[-1]!r} holds jobs already, so it is "
                f"nobody's private one. Give the test an empty one, or leave store out."
            )

    def _check_entered(self) -> None:
        if self._before is None:
            raise BadInput("enter the sandbox first: `with private(app) as sandbox:`.")

    def _sync(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self._homes.sync(work)


class PrivateHomes(Homes):
    """The homes of a private store, which tells a ledger of all that happens there."""

    def __init__(self, url: str, clock: HandClock, ledger: Ledger) -> None:
        super().__init__(url, clock)
        self._ledger = ledger

    def store_here(self) -> None:
        """Have every call go through ``run``: the store as it is tells the ledger nothing."""
        return None

    async def run(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Call the store, which tells the ledger."""
        return await super().run(lambda store: verb(PrivateStore(store, self._ledger)))

    async def run_here(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Call the store on this loop, which tells the ledger."""
        return await super().run_here(lambda store: verb(PrivateStore(store, self._ledger)))

    async def lend(self) -> Store:
        """Return the store, which tells the ledger."""
        return PrivateStore(await super().lend(), self._ledger)

    async def close(self) -> None:
        """Do nothing: a store in memory ends when it is closed, and the test goes on."""

    async def end(self) -> None:
        """Close the store: the test is over."""
        await super().close()


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
