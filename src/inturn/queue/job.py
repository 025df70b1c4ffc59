"""A job as a user declares it: a function, how it is run, and how it is submitted."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, get_args
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from inturn.model import bounds
from inturn.model.admissible import check_jobs, listed
from inturn.model.callables import is_async
from inturn.model.errors import BadInput
from inturn.model.job import NewJob
from inturn.policy.dedupe import default_dedupe
from inturn.policy.retry import RetryPolicy
from inturn.queue.arguments import Arguments, Hints
from inturn.queue.context import Context
from inturn.queue.ticket import Ticket

if TYPE_CHECKING:
    from inturn.queue.app import App

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Function = TypeVar("Function", bound=Callable[..., Any])

MAIN = "__main__"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How one submission differs from another of the same job."""

    queue: str
    key: str | None = None
    priority: int = 0
    delay: float = 0.0
    round: int = 0
    after: frozenset[UUID] = frozenset()
    after_failed: frozenset[UUID] = frozenset()
    dedupe: str | bool | None = None
    dedupe_seconds: float = bounds.DEDUPE_SECONDS_DEFAULT


class Call(Generic[R_co]):
    """A job with its arguments, not submitted yet: for ``App.submit_many``. It is one job, once.

    ``app`` is the one that declares the job; None where that is not known, as in a copy from
    another process.
    """

    __slots__ = ("app", "hint", "is_submitted", "new")

    def __init__(self, new: NewJob, hint: Any, app: App | None = None) -> None:
        self.new, self.hint, self.app = new, hint, app
        self.is_submitted = False  # or is about to be

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.new, self.hint)  # an app cannot be copied elsewhere

    def __repr__(self) -> str:
        key = "" if self.new.key is None else f" key={self.new.key!r}"
        return f"<Call of {self.new.kind}{key}: {self.new.payload[:80]}>"

    def keyed(self, key: str) -> Call[R_co]:
        """Return the same job under a key."""
        new = msgspec.structs.replace(self.new, key=key)
        return Call(new, self.hint, self.app)

    def is_of(self, app: App) -> bool:
        """Whether an app declares the job, as far as is known, or one that this is a copy of."""
        return self.app is None or self.app.mark is app.mark

    def check_for(self, app: App) -> None:
        """Refuse to be submitted through an app on another store: its workers would not find it."""
        if self.is_of(app) or self.app is None:
            return
        if app.connections.is_private or self.app.address != app.address:
            raise BadInput(
                f"job {self.new.kind!r} is one of another app, on another store, whose workers "
                f"would not find it here. Submit it through the app that declares it."
            )

    def check_not_submitted(self) -> None:
        """Refuse to be submitted again: it would be the same job, and run no second time."""
        if self.is_submitted:
            raise BadInput(
                f"this call of {self.new.kind!r} was submitted before, as job {self.id}, and would "
                f"not run again: a call is one job. Make one for each time: job.call(…)."
            )

    @property
    def id(self) -> UUID:
        """The id the job will have, for the ``after`` of another."""
        return self.new.id


class Job(Generic[P, R]):
    """A function that is run by workers: once for each time it is submitted."""

    def __init__(
        self,
        app: App,
        function: Callable[..., Any],
        hints: Hints,
        *,
        kind: str,
        module: str,
        options: Options,
        retry: RetryPolicy,
        timeout: float | None,
        process: bool,
        keep_result: float | None,
    ) -> None:
        self.app = app
        self.function = function
        self.kind = kind
        self.module = module  # the one that declares it: a child process finds it there
        self.retry = retry
        self.timeout = timeout
        self.keep_result = keep_result
        self.in_process = process
        self.is_async = is_async(function)
        self.has_context = takes_context(function, hints)
        self.options = options
        self.connection: Any = None  # the caller's own, in whose transaction it is submitted
        self.options_said: frozenset[str] = frozenset()  # by using, also if they are as declared
        self.result_hint = hints.get("return", Any)
        self.arguments = Arguments(function, hints, kind=kind, has_context=self.has_context)
        update_wrapper(self, function, updated=())  # its attributes are no settings of ours

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> Ticket[R]:
        """Submit the job with these arguments; return a ticket when it is accepted for good."""
        if self.connection is not None:
            calls = [self.call(*args, **kwargs)]
            [ticket] = await self.app.submit_many(calls, connection=self.connection)
            return ticket
        return await self._accepted(self._new(args, kwargs, unsent=True))

    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> Ticket[R]:
        """Submit from code that is not async."""
        if self.connection is not None:
            calls = [self.call(*args, **kwargs)]
            [ticket] = self.app.submit_many_sync(calls, connection=self.connection)
            return ticket
        return self.app.sync(self._accepted(self._new(args, kwargs, unsent=True)))

    async def _accepted(self, new: NewJob) -> Ticket[R]:
        [accepted] = await self.app.connections.run(lambda store: store.enqueue([new]))
        return Ticket(self.app, accepted, self.result_hint)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return the job with these arguments, to be submitted with others."""
        new = self._new(args, kwargs)
        check_jobs([new])  # the store does, too, but that is far from this line
        return Call(new, self.result_hint, self.app)

    def _new(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, unsent: bool = False
    ) -> NewJob:
        options = self.options
        dedupe = options.dedupe
        payload = self.arguments.encode(args, kwargs, is_steady=dedupe not in (None, False))
        if isinstance(dedupe, bool):
            dedupe = default_dedupe(self.kind, payload) if dedupe else None
        return NewJob(
            kind=self.kind,
            payload=payload,
            queue=options.queue,
            key=options.key,
            priority=options.priority,
            round=options.round,
            delay_seconds=options.delay,
            attempts_max=self.retry.attempts_max,
            timeout_seconds=self.timeout,
            after=options.after,
            after_failed=options.after_failed,
            dedupe=dedupe,
            dedupe_seconds=options.dedupe_seconds,
            unsent=unsent,
        )

    def using(
        self,
        *,
        key: str | UnsetType | None = UNSET,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        round: int | None = None,
        after: Iterable[UUID | Ticket[Any] | Call[Any]] | None = None,
        after_failed: Iterable[UUID | Ticket[Any] | Call[Any]] | None = None,
        dedupe: str | bool | UnsetType | None = UNSET,
        dedupe_seconds: float | None = None,
        connection: Any = None,
    ) -> Self:
        """Return the same job with other options for what is submitted through it.

        What is left out stays as it was. ``key=None`` and ``dedupe=None`` take one away.

        - ``key``: jobs of one key run one at a time, in the order they were accepted;
        - ``queue``, ``priority`` (higher first), ``round`` (waits for its gate);
        - ``delay``: takes its place in line after so many seconds;
        - ``after``: tickets, calls or ids of jobs that must be done first;
        - ``after_failed``: instead: run when one of these is buried or cancelled, and if all are
          done, not at all;
        - ``dedupe``: a second job with this key is the first one; True: with the same arguments;
        - ``connection``: your own connection to PostgreSQL, in a transaction: ``submit`` and
          ``submit_sync`` are part of it, as with ``App.submit_many``.
        """
        given = {
            "queue": queue,
            "priority": priority,
            "delay": delay,
            "round": round,
            "after": _ids_of("after", after),
            "after_failed": _ids_of("after_failed", after_failed),
            "dedupe_seconds": dedupe_seconds,
        }
        changed: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
        # For these, None is something to say: a submission must not go by the key of another.
        removable = {"key": key, "dedupe": dedupe}
        changed |= {name: one for name, one in removable.items() if one is not UNSET}
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.options = msgspec.structs.replace(self.options, **changed)
        other.connection = self.connection if connection is None else connection
        other.options_said = self.options_said | changed.keys()
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, here and now, as if it were no job."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Job {self.kind!r}>"


if TYPE_CHECKING:

    class DeclaredJob(Job[P, R], Generic[P, R, Function]):
        """What ``@app.job`` makes of a function: a job, called with the function's own types."""

        @property
        def __call__(self) -> Function:
            """The function itself."""
            ...

else:
    DeclaredJob = Job  # only types tell them apart


def takes_context(function: Callable[..., Any], hints: Hints) -> bool:
    """Say whether a handler's first parameter asks for its context; no other may."""
    parameters = list(inspect.signature(function).parameters.values())
    names = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    asking = [
        one.name
        for one in parameters
        if Context in (hints.get(one.name), *get_args(hints.get(one.name)))
    ]
    if asking and (asking != names[:1] or hints[asking[0]] is not Context):
        raise BadInput(
            f"job {function.__name__!r} asks for its context as {asking[-1]!r}. Only its first "
            f"parameter may, and plainly: {function.__name__}(ctx: Context, …)."
        )
    return bool(asking)


def check_distinct(calls: Sequence[Call[Any]]) -> None:
    """Refuse a batch in which a call stands twice."""
    ids: set[UUID] = set()
    for call in calls:
        if call.id in ids:
            raise BadInput(
                f"this call of {call.new.kind!r}, job {call.id}, stands twice in the batch, and "
                f"would run once: a call is one job. Make one for each time: job.call(…)."
            )
        ids.add(call.id)


def _ids_of(
    name: str, others: Iterable[UUID | Ticket[Any] | Call[Any]] | None
) -> frozenset[UUID] | None:
    return None if others is None else frozenset(id_of(name, one) for one in listed(name, others))


def id_of(what: str, one: UUID | Ticket[Any] | Call[Any]) -> UUID:
    """Return the id of a job, however it is named."""
    if isinstance(one, UUID):
        return one
    if isinstance(one, Ticket | Call):
        return one.id
    raise BadInput(f"{what} takes tickets, calls or ids of jobs, not {type(one).__name__}.")


def check_findable(job: Job[Any, Any]) -> None:
    """Refuse, when it is declared, a job that no other process could find."""
    if "<locals>" in job.function.__qualname__:
        raise unfindable(job.kind, "its function is defined inside another")
    if job.module == MAIN and not getattr(sys.modules[MAIN], "__file__", None):
        raise unfindable(job.kind, "it is declared where there is no file, as in a notebook")


def unfindable(
    kind: str, why: str, advice: str = "Declare app and job at the top of a module"
) -> BadInput:
    """Return the error for a job that a child process cannot find."""
    return BadInput(
        f"job {kind!r} has process=True, and a child process could not find it: {why}. {advice}, "
        f"or leave out process=True."
    )
