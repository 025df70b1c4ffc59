"""An app: a store, and the jobs that are declared on it."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from types import FrameType, TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload
from weakref import WeakSet

from inturn.model import bounds
from inturn.model.admissible import check_name, check_number, check_whole, listed, shown
from inturn.model.clock import Clock
from inturn.model.errors import BadInput
from inturn.model.forks import in_forked_child
from inturn.model.job import NewJob
from inturn.model.job import Ticket as Accepted
from inturn.policy.retry import RetryPolicy
from inturn.queue.arguments import hints_of
from inturn.queue.bridge import Bridge
from inturn.queue.context import Context
from inturn.queue.home import Home, HomeEnded, NotBegun, Opening, crossed, repeated, sent, waited
from inturn.queue.hooks import Around, AroundManager, Hook, Hooks
from inturn.queue.job import Call, DeclaredJob, Job, Options, resent
from inturn.queue.places import check_findable
from inturn.queue.ticket import Ticket
from inturn.store.address import connect
from inturn.store.protocol import Store

P = ParamSpec("P")
R = TypeVar("R")
Answer = TypeVar("Answer")
AnyHook = TypeVar("AnyHook", bound=Hook)
AnyAround = TypeVar("AnyAround", bound=Around | AroundManager)


_apps: WeakSet[App] = WeakSet()
_left_to_parents: list[Any] = []
"""What a forked child neither uses nor closes: its parent does, and would feel it."""


class Declaration:
    """What ``app.job(…)`` returns: waits for the function that it decorates."""

    def __init__(self, app: App, kind: str | None, settings: Mapping[str, Any]) -> None:
        self._app, self._kind, self._settings = app, kind, settings

    @overload
    def __call__(  # type: ignore[overload-overlap]  # the first that fits is meant
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> DeclaredJob[P, R, Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> DeclaredJob[P, R, Callable[P, Coroutine[Any, Any, R]]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> DeclaredJob[P, R, Callable[Concatenate[Context, P], R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> DeclaredJob[P, R, Callable[P, R]]: ...
    def __call__(self, function: Callable[..., Any], /) -> DeclaredJob[Any, Any, Any]:
        """Make a job of a function."""
        return self._app._declare(function, self._kind, self._settings, sys._getframe(1))


class App:
    """A store, by its URL, and the jobs that are declared on it.

    It opens its store by itself, on the event loop where it is first used. From other loops and
    threads it may be used as well, however briefly they live: they are served on a thread of its
    own, or where a worker has the store. ``async with app`` opens and closes it.
    """

    def __init__(self, store: str | None = None, *, clock: Clock | None = None) -> None:
        url = os.environ.get("INTURN_STORE") or None if store is None else store
        if url is None:
            raise BadInput(
                'an App needs a store: App("sqlite:///work.db"), '
                'App("postgresql://user@host/database"), or the variable INTURN_STORE.'
            )
        self.url = url
        self.clock = clock
        self.jobs: dict[str, Job[Any, Any]] = {}
        self.hooks = Hooks()
        self._opening = Opening(connect(url, clock=clock))
        self._home: Home | None = None  # on a loop of the user's
        self._guests: Home | None = None  # on the bridge, for who comes from elsewhere
        self._settling_in = threading.Lock()
        self._bridge = Bridge()
        self._is_lost = False
        _apps.add(self)

    # Jobs

    @overload
    def job(  # type: ignore[overload-overlap]  # the first that fits is meant
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> DeclaredJob[P, R, Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]]: ...
    @overload
    def job(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> DeclaredJob[P, R, Callable[P, Coroutine[Any, Any, R]]]: ...
    @overload
    def job(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> DeclaredJob[P, R, Callable[Concatenate[Context, P], R]]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> DeclaredJob[P, R, Callable[P, R]]: ...
    @overload
    def job(
        self,
        /,
        *,
        kind: str | None = None,
        queue: str = "default",
        attempts: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        priority: int = 0,
        process: bool = False,
        keep_result: float | None = bounds.RESULT_SECONDS_DEFAULT,
    ) -> Declaration: ...
    def job(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        kind: str | None = None,
        queue: str = "default",
        attempts: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        priority: int = 0,
        process: bool = False,
        keep_result: float | None = bounds.RESULT_SECONDS_DEFAULT,
    ) -> Any:
        """Make a job of a function: ``@app.job``, or ``@app.job(queue="mail", attempts=5)``.

        An ``async def`` runs on the worker's event loop, a ``def`` on a thread.

        - ``kind``: its name in the store, by default the function's;
        - ``attempts``, or a whole ``retry`` policy: how often it is tried, and when again;
        - ``timeout``: seconds after which an attempt is ended and counts as failed: an ``async
          def`` is cancelled, a ``def`` has an exception raised in it as soon as it runs Python
          code, and a ``process`` is killed;
        - ``process``: run it in a child process, which is killed at the timeout and may die
          without harm to the worker. The child imports the module that declares the job, so app
          and job must stand at the top of a module;
        - ``keep_result``: for how many seconds what it returns is kept; None: not at all.
        """
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_whole("priority", priority, bounds.PRIORITY_MIN, bounds.PRIORITY_MAX)
        policy = RetryPolicy() if retry is None else retry
        if not isinstance(policy, RetryPolicy):
            raise BadInput(f"retry takes a RetryPolicy, not {shown(retry)}. Or say attempts=….")
        if attempts is not None:
            check_whole("attempts", attempts, 1, bounds.ATTEMPTS_MAX)
            policy = replace(policy, attempts_max=attempts)
        settings = {
            "options": Options(queue=queue, priority=priority),
            "retry": policy,
            "timeout": timeout,
            "process": process,
            "keep_result": keep_result,
        }
        if function is None:
            return Declaration(self, kind, settings)
        return self._declare(function, kind, settings, sys._getframe(1))

    def _declare(
        self,
        function: Callable[..., Any],
        kind: str | None,
        settings: Mapping[str, Any],
        where: FrameType,
    ) -> DeclaredJob[Any, Any, Any]:
        if not hasattr(function, "__name__") or inspect.isclass(function):
            raise BadInput(f"@app.job is for functions, not {shown(function)}.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise BadInput(
                f"job {function.__name__!r} yields, so that calling it runs nothing of it. Write a "
                f"function that returns."
            )
        kind = function.__name__ if kind is None else kind
        check_name("kind", kind, bounds.KIND_CHARS_MAX)
        if kind in self.jobs:
            raise BadInput(
                f"there are two jobs of kind {kind!r} in this app: a worker could not tell which "
                f"to run. Give one of them another: @app.job(kind=…)."
            )
        if settings["timeout"] is not None:
            check_number("timeout", settings["timeout"], 0.001, bounds.TIMEOUT_SECONDS_MAX)
        if settings["keep_result"] is not None:
            check_number("keep_result", settings["keep_result"], 0.0, bounds.DEDUPE_SECONDS_MAX)
        hints = hints_of(function, where.f_locals)
        module = where.f_globals.get("__name__", "")
        job: DeclaredJob[Any, Any, Any] = DeclaredJob(
            self, function, hints, kind=kind, module=module, **settings
        )
        if job.in_process:
            check_findable(job)
        self.jobs[kind] = job
        return job

    # Hooks

    def on_start(self, function: AnyHook) -> AnyHook:
        """Call a function, async or not, in each worker before its first claim.

        If it fails, the worker ends with its error.
        """
        self.hooks.on_start(function)
        return function

    def on_stop(self, function: AnyHook) -> AnyHook:
        """Call a function, async or not, in each worker after its last settle, however it ends."""
        self.hooks.on_stop(function)
        return function

    def around(self, function: AnyAround) -> AnyAround:
        """Put every attempt inside an ``async def`` that takes its context and yields once.

        Or inside the async context manager that a function returns. What the handler raises comes
        out of the ``yield``. For logging, tracing, database sessions; what it sets in context
        variables a handler sees, also a ``def``. Of a job with ``process=True`` it runs in the
        child.
        """
        self.hooks.around(function)
        return function

    # Submitting

    async def submit_many(
        self, calls: Iterable[Call[R]], *, connection: Any = None
    ) -> list[Ticket[R]]:
        """Submit jobs, all or none, in this order within each key.

        ``connection``: the caller's own asyncpg connection, in a transaction; the jobs are accepted
        when that commits.
        """
        calls = listed("calls", calls)
        for call in calls:
            if not isinstance(call, Call):
                raise BadInput(f"submit_many takes calls, job.call(…), not {shown(call)}.")
        jobs = [call.new for call in calls]
        if connection is not None:
            accepted = await self.run(lambda store: store.enqueue(jobs, connection=connection))
        else:
            accepted = await repeated(self, _sending(jobs))
        return [Ticket(self, one, call.hint) for one, call in zip(accepted, calls, strict=True)]

    def sync(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run what is async, such as ``ticket.result()``, from code that is not."""
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

    # Life

    def use(self, store: str) -> None:
        """Use another store, by its URL. Before the app is first used, not later."""
        if any(home is not None and home.opening.is_open for home in (self._home, self._guests)):
            raise BadInput("the app's store is open: name another before the app is first used.")
        opening = Opening(connect(store, clock=self.clock))
        with self._settling_in:
            self._home = self._guests = None
            self._opening, self.url = opening, store

    async def open(self) -> None:
        """Open the store now, rather than when it is first used."""
        await self.run(_nothing)

    async def close(self) -> None:
        """Close the store. The app opens it again when it is used again.

        What is under way is finished. Who comes meanwhile has it opened anew.
        """
        with self._settling_in:
            homes = [home for home in (self._home, self._guests) if home is not None]
            self._home = self._guests = None
            shared, self._opening = self._opening, Opening(connect(self.url, clock=self.clock))
            for home in homes:
                home.enter()
        try:
            for home in homes:
                await _closed(home)
            await shared.close()
        finally:
            for home in homes:
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

    async def migrate(self) -> int:
        """Make or renew the store's tables; return their version."""
        store = self.spare_store()
        try:
            return await store.migrate()
        finally:
            await store.close()

    def spare_store(self) -> Store:
        """Return the store once more, not open: for a thread of its own."""
        return connect(self.url, clock=self.clock)

    async def run(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Call the store, on the loop where it lives.

        If that is another loop than this, and it ends before it answers, ``StoreUnavailable`` says
        so: the call may have happened or not.
        """
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

    async def lend(self) -> Store:
        """Return the store, open, to a worker that lives on this loop: the store's from now on."""
        here = asyncio.get_running_loop()
        while True:
            try:
                return await self._run_at(self._lent(here), _itself)
            except NotBegun:
                continue

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

    def _lent(self, here: asyncio.AbstractEventLoop) -> Home:
        """Make a loop the store's home, where everyone finds it as long as that loop runs."""
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
            return home

    def _living_home(self) -> Home | None:
        """Return the home if its loop runs; else its connections died with it."""
        if self._home is not None and not self._home.loop.is_running():
            self._home = None
        return self._home

    def _new_opening(self) -> Opening:
        """Return the store for one more loop: the same one, if it serves any."""
        is_bound = self._opening.store.is_bound_to_loop
        return Opening(connect(self.url, clock=self.clock)) if is_bound else self._opening

    async def _run_at(self, home: Home, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        if not home.opening.is_open:
            self._check_not_lost()
            await home.opening.opened()
        return await verb(home.opening.store)

    def _begin_anew(self) -> None:
        """In a forked child: leave the store, the loops and the thread to the parent."""
        _left_to_parents.append((self._opening, self._home, self._guests, self._bridge))
        opening = self._opening
        self._is_lost = self._is_lost or (opening.is_open and opening.store.is_private)
        self._opening = Opening(connect(self.url, clock=self.clock))
        self._home = self._guests = None
        self._settling_in, self._bridge = threading.Lock(), Bridge()

    def _check_not_lost(self) -> None:
        if self._is_lost:
            raise BadInput(
                "the app's store is in the memory of the process that this one was forked from, "
                "where no other can reach it. Use a file or PostgreSQL, or an App of its own."
            )

    async def __aenter__(self) -> App:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _begin_all_anew() -> None:
    for app in list(_apps):
        app._begin_anew()


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


def _sending(jobs: list[NewJob]) -> Callable[[Store], Awaitable[list[Accepted]]]:
    """Return the verb that enqueues jobs, and may be called again: the store knows their ids."""
    tries = count(1)

    def enqueue(store: Store) -> Awaitable[list[Accepted]]:
        return store.enqueue(jobs if next(tries) == 1 else [resent(job) for job in jobs])

    return enqueue


async def _nothing(_store: Store) -> None:
    pass


async def _itself(store: Store) -> Store:
    return store


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
