"""An app: a store, and the jobs that are declared on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from inspect import isclass, signature
from types import FrameType, TracebackType
from typing import (
    Any,
    Concatenate,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from msgspec import UNSET, UnsetType

from inturn.model import bounds
from inturn.model.admissible import (
    check_declared,
    check_name,
    check_number,
    check_whole,
    listed,
    shown,
)
from inturn.model.callables import yields
from inturn.model.clock import Clock
from inturn.model.errors import BadInput
from inturn.model.job import NewJob
from inturn.model.job import Ticket as Accepted
from inturn.policy.retry import RetryPolicy
from inturn.queue.arguments import hints_of
from inturn.queue.connections import Connections
from inturn.queue.context import Context
from inturn.queue.declared import Duty, DutyFunction, QueueDeclaration, plain_settings
from inturn.queue.extensions import ExtensibleApp
from inturn.queue.hooks import Around, AroundManager, Hook, Hooks
from inturn.queue.job import Call, DeclaredJob, Job, Options, check_distinct, check_findable
from inturn.queue.ticket import Ticket
from inturn.queue.transaction import AppTransaction, app_transaction
from inturn.store.address import without_password
from inturn.store.schema import Schema, installed_schemas
from inturn.store.store import Store

P = ParamSpec("P")
R = TypeVar("R")
Answer = TypeVar("Answer")
AnyHook = TypeVar("AnyHook", bound=Hook)
AnyAround = TypeVar("AnyAround", bound=Around | AroundManager)


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
    def __call__(  # type: ignore[overload-overlap]  # as a decorator may have it
        self, function: Callable[Concatenate[Context, P], Awaitable[R]], /
    ) -> DeclaredJob[P, R, Callable[Concatenate[Context, P], Awaitable[R]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Awaitable[R]], /
    ) -> DeclaredJob[P, R, Callable[P, Awaitable[R]]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> DeclaredJob[P, R, Callable[Concatenate[Context, P], R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> DeclaredJob[P, R, Callable[P, R]]: ...
    def __call__(self, function: Callable[..., Any], /) -> DeclaredJob[Any, Any, Any]:
        """Make a job of a function."""
        return self._app._declare(function, self._kind, self._settings, sys._getframe(1))


class App(ExtensibleApp):
    """A store, by its URL, and the jobs that are declared on it.

    It opens its store when it is first used, and may be used from any event loop and any thread.
    ``async with app`` opens and closes it.
    """

    def __init__(self, store: str | None = None, *, clock: Clock | None = None) -> None:
        url = os.environ.get("INTURN_STORE") or None if store is None else store
        if url is None:
            raise BadInput(
                'an App needs a store: App("sqlite:///work.db"), '
                'App("postgresql://user@host/database"), or the variable INTURN_STORE, '
                "which `inturn work`'s --store sets as well."
            )
        super().__init__()
        self.jobs: dict[str, Job[Any, Any]] = {}
        self.hooks = Hooks()
        self.duties: dict[str, Duty] = {}
        self.connections = Connections(url, clock)
        self._queues_made: set[str] = set()  # for those who submit on connections of their own
        self.mark = object()  # the same in the copies of it that workers have

    def __repr__(self) -> str:
        jobs = ", ".join(self.jobs) or "none"
        return f"<App on {without_password(self.url)}, jobs: {jobs}>"

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
    def job(  # type: ignore[overload-overlap]  # as a decorator may have it
        self, function: Callable[Concatenate[Context, P], Awaitable[R]], /
    ) -> DeclaredJob[P, R, Callable[Concatenate[Context, P], Awaitable[R]]]: ...
    @overload
    def job(
        self, function: Callable[P, Awaitable[R]], /
    ) -> DeclaredJob[P, R, Callable[P, Awaitable[R]]]: ...
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
        is_partial = isinstance(function, partial)
        if not hasattr(function, "__name__") or isclass(function) or is_partial:
            raise BadInput(f"@app.job is for functions, not {shown(function)}.")
        if yields(function):
            raise BadInput(
                f"job {function.__name__!r} yields, so that calling it runs nothing of it. Write a "
                f"function that returns."
            )
        if next(iter(signature(function).parameters), None) == "self":
            raise BadInput(
                f"job {function.__name__!r} is a method, and a payload has no `self`. Make it a "
                f"function, or a @staticmethod below @app.job."
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

    # Queues

    def queue(self, name: str, **settings: Unpack[QueueDeclaration]) -> str:
        """Say how a queue behaves: ``app.queue("orders", on_dead="halt", rate=(50, "5m"))``.

        Written to the store when a worker starts or the app is used next, if it is not what code
        said last: what a person has set with ``inturn queues set`` holds until the code changes. A
        setting that is not named stays as it is. Returns the name.

        - ``on_dead``: after a job of a key dies, "skip" to its next, or "halt" its lane;
        - ``replay``: "none" starts the next job of a key only when its predecessor is committed;
        - ``suspects``: "again" runs jobs whose worker died again at once, beside others;
        - ``running_max``: how many run at once, over all workers;
        - ``rate``: how many start in a time, over all workers: ``(50, "5m")``;
        - ``depth_max``, ``lane_depth_max``: how many jobs it holds, and how many of one key; on
          PostgreSQL concurrent producers may pass it by what they submit within a second;
        - ``keep_done``, ``aging``: as ``inturn queues set`` has them, in seconds or as "7d";
        - ``local``: only workers that name it claim from it.

        None takes a limit away.
        """
        check_name("queue", name, bounds.QUEUE_CHARS_MAX)
        given = plain_settings(settings)
        check_declared(given)
        self.connections.declare_queue(name, given)
        self._queues_made.discard(name)
        return name

    def limit(
        self,
        name: str,
        *,
        rate: int | UnsetType | None = UNSET,
        per: float | str | None = None,
        running: int | UnsetType | None = UNSET,
    ) -> str:
        """Limit a queue: ``app.limit("lightspeed", rate=50, per="5m", running=2)``.

        A job comes under it by ``queue="lightspeed"``. A limit that is not named stays as it is;
        None takes it away.
        """
        limits = QueueDeclaration()
        if running is not UNSET:
            limits["running_max"] = running
        if (rate is UNSET or rate is None) is not (per is None):
            raise BadInput('a limit starts so many jobs in a time: rate=50, per="5m".')
        if rate is not UNSET:
            limits["rate"] = None if rate is None or per is None else (rate, per)
        return self.queue(name, **limits)

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

        ``connection``: your own connection to PostgreSQL, in a transaction: one of asyncpg's,
        psycopg's, SQLAlchemy's (or its session) or Django's. The jobs are accepted when that
        commits; where none is open, PostgreSQL commits them at once. It is used on the thread and
        loop where you call this. After an error roll the transaction back.
        """
        calls = self._checked(calls)
        jobs = [call.new for call in calls]
        if connection is not None:
            verb = partial(_enqueued_within, connection=connection, jobs=jobs)
            accepted = await self.connections.run(verb, is_own=True)  # as the connection is
        else:
            for call in calls:
                call.check_not_submitted()
            for call in calls:
                call.is_submitted = True
            try:
                accepted = await self.run(lambda store: store.enqueue(jobs))
            except BaseException:
                for call in calls:
                    call.is_submitted = False
                raise
        return [Ticket(self, one, call.hint) for one, call in zip(accepted, calls, strict=True)]

    def submit_many_sync(
        self, calls: Iterable[Call[R]], *, connection: Any = None
    ) -> list[Ticket[R]]:
        """Submit jobs from code that is not async; a ``connection`` is used on this thread."""
        if connection is None:
            return self.sync(self.submit_many(calls))
        calls = self._checked(calls)
        jobs = [call.new for call in calls]
        queues = {job.queue for job in jobs} - self._queues_made
        if queues:
            self.sync(self.run(lambda store: store.make_queues(queues)))
            self._queues_made |= queues
        accepted = self.spare_store().enqueue_sync(jobs, connection=connection)
        return [Ticket(self, one, call.hint) for one, call in zip(accepted, calls, strict=True)]

    def _checked(self, calls: Iterable[Call[R]]) -> list[Call[R]]:
        calls = listed("calls", calls)
        for call in calls:
            if not isinstance(call, Call):
                raise BadInput(f"submit_many takes calls, job.call(…), not {shown(call)}.")
            call.check_for(self)
        check_distinct(calls)
        return calls

    def transaction(self) -> AbstractAsyncContextManager[AppTransaction]:
        """Open one transaction for rows of your own and for jobs.

        As ``ctx.transaction()`` in a handler, without a job. On SQLite it has the only writer: keep
        it short.
        """
        return app_transaction(self)

    # Life

    @property
    def url(self) -> str:
        """The store's URL, as it was given."""
        return self.connections.url

    @property
    def address(self) -> str:
        """The store's URL with the whole path of its file, in whichever folder the process is."""
        return self.connections.address

    @property
    def clock(self) -> Clock | None:
        """The clock that the store was given; None: its own."""
        return self.connections.clock

    def use(self, store: str, *, clock: Clock | None = None) -> None:
        """Use another store, by its URL. Before the app is first used, not later."""
        self.connections.use(store, clock or self.clock)

    async def open(self) -> None:
        """Open the store now, for this loop, rather than when it is first used."""
        await self.lend()

    async def close(self) -> None:
        """Close the store. The app opens it again when it is used again.

        What is under way is finished. Where a worker of this process lives on the store, it stays
        open, and is closed when the worker ends.
        """
        await self.connections.close()

    async def migrate(self) -> int:
        """Make the store's tables, those of installed applications and of the app's own schemas,
        or bring them to their versions; return the engine's.
        """
        store = self.spare_store()
        try:
            return await store.migrate([*installed_schemas(), *self.schemas])
        finally:
            await store.close()

    def schema(self, schema: Schema) -> Schema:
        """Have ``app.migrate()`` and ``inturn store migrate --app …`` make these tables, too.

        The app is not used on a store without them, nor on older ones; on SQLite it makes them.
        """
        self.connections.declare_schema(schema)
        return schema

    @property
    def schemas(self) -> list[Schema]:
        """The tables that the app needs besides the engine's, in the order they were named."""
        return list(self.connections.declared.schemas)

    def duty(
        self, name: str, function: DutyFunction, *, every_seconds: float, alone: bool = True
    ) -> None:
        """Have workers call ``async def function(store, held_until)`` again and again, beside jobs.

        It is called every so many seconds, or when it says: it may return in how many. It runs on
        the worker's background thread, where heartbeats run: it must not block. The store is that
        thread's. One that fails is named in the log, once, and is called again.

        - ``alone``: by one worker at a time, of all that share the store. It holds the duty for its
          lease, and prolongs that; when it dies another takes over;
        - ``held_until``: by this machine's clock: when nobody else may do it yet. A call that takes
          longer is cancelled, so do much work in steps and return 0 between them.
        """
        if name in self.duties:
            raise BadInput(f"there are two duties {name!r} in this app. Give one another name.")
        self.duties[name] = Duty(
            name=name, function=function, every_seconds=every_seconds, alone=alone
        )

    def spare_store(self) -> Store:
        """Return the store once more, not open: for a thread of its own."""
        return self.connections.connect()

    async def run(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Call the store. A loop that has none of its own calls it on the app's thread."""
        return await self.connections.run(verb)

    def sync(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run what is async, such as ``ticket.result()``, from code that is not."""
        return self.connections.sync(work)

    async def lend(self) -> Store:
        """Return this loop's own store, open: for a worker that lives here."""
        return await self.connections.run(_itself, is_own=True)

    def keep_open(self) -> AbstractAsyncContextManager[None]:
        """Keep this loop's own store open while inside, whoever closes the app."""
        return self.connections.keep_open()

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


async def _enqueued_within(store: Store, *, connection: Any, jobs: list[NewJob]) -> list[Accepted]:
    return await store.enqueue(jobs, connection=connection)


async def _itself(store: Store) -> Store:
    return store
