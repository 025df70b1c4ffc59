"""Watching a worker from within its process: what it is given, what it takes, how each job ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from copy import copy
from functools import wraps
from typing import Any, Protocol
from uuid import UUID

from inturn.model.admissible import listed
from inturn.model.job import LeasedJob, NewJob, Ticket
from inturn.model.lease import Claim, Lease
from inturn.policy.settlement import Outcome, Settlement, gives_back_rest
from inturn.policy.verdict import Bury, Retry
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.queue.job import Job
from inturn.store.delegate import StoreDelegate
from inturn.store.protocol import Store, Transaction


class Watcher(Protocol):
    """Is told what went through a store, after it did, on the loop where the store lives; and of
    handlers, where they run.
    """

    def accepted(self, jobs: Sequence[NewJob], tickets: Sequence[Ticket]) -> None:
        """Hear of jobs that were accepted, and of those that were known already."""
        ...

    def claiming(self, queue: str) -> None:
        """Hear that a worker is about to look for jobs."""
        ...

    def claimed(self, queue: str, claims: Sequence[Claim]) -> None:
        """Hear what it found."""
        ...

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Hear what became of leased jobs."""
        ...

    def began(self, job: LeasedJob) -> None:
        """Hear that a handler begins, in the context in which it runs."""
        ...

    def failed(self, job: LeasedJob, error: Exception) -> None:
        """Hear what a handler raised."""
        ...

    def left(self, job: LeasedJob) -> None:
        """Hear that a handler has ended, however it did, in the context in which it began."""
        ...


class Hand:
    """The jobs that a worker has claimed and not settled, as a watcher hears of them."""

    def __init__(self) -> None:
        self._held: dict[UUID, tuple[Lease, LeasedJob]] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def jobs(self) -> list[LeasedJob]:
        """What it holds."""
        return [job for _, job in self._held.values()]

    def take(self, claims: Iterable[Claim]) -> None:
        """Hold what was claimed."""
        for claim in claims:
            self._held.update((job.id, (claim.lease, job)) for job in claim.jobs)

    def settle(self, settlement: Settlement) -> None:
        """Let go of what was settled; in a keyed lane, also of what that gives back."""
        for outcome in settlement.outcomes:
            self._held.pop(outcome.job.id, None)
        lease = settlement.lease
        if any(gives_back_rest(lease, outcome) for outcome in settlement.outcomes):
            for id, (held, _) in list(self._held.items()):
                if (held.token, held.lane) == (lease.token, lease.lane):
                    del self._held[id]

    def clear(self) -> None:
        """Let go of everything."""
        self._held.clear()


class WatchedStore(StoreDelegate):
    """A store with a watcher. Every verb does what it does without one."""

    def __init__(self, store: Store, watcher: Watcher) -> None:
        super().__init__(store)
        self._watcher = watcher

    async def enqueue(self, jobs: Iterable[NewJob], *, connection: Any = None) -> list[Ticket]:
        """Accept jobs."""
        jobs = listed("jobs", jobs)
        tickets = await self._store.enqueue(jobs, connection=connection)
        self._watcher.accepted(jobs, tickets)
        return tickets

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        """Lease jobs."""
        self._watcher.claiming(queue)
        claims = await self._store.claim(queue, **options)
        self._watcher.claimed(queue, claims)
        return claims

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs."""
        settlements = listed("settlements", settlements)
        await self._store.settle(settlements, worker=worker)
        self._watcher.settled(settlements)

    async def turn(
        self, settlements: Iterable[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        """Settle, then claim."""
        settlements = listed("settlements", settlements)
        self._watcher.claiming(queue)
        claims = await self._store.turn(settlements, queue, **options)
        self._watcher.settled(settlements)
        self._watcher.claimed(queue, claims)
        return claims

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction; its watcher hears of it when it has committed."""
        async with self._store.transaction() as transaction:
            watched = WatchedTransaction(transaction)
            yield watched
        for jobs, tickets in watched.accepted:
            self._watcher.accepted(jobs, tickets)
        self._watcher.settled(watched.settlements)


class WatchedTransaction:
    """A transaction that keeps what was said in it until it commits."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.accepted: list[tuple[list[NewJob], list[Ticket]]] = []
        self.settlements: list[Settlement] = []

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[Ticket]:
        """Accept jobs, with the rest of the transaction."""
        jobs = listed("jobs", jobs)
        tickets = await self._transaction.enqueue(jobs)
        self.accepted.append((jobs, tickets))
        return tickets

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs, with the rest of the transaction."""
        settlements = listed("settlements", settlements)
        await self._transaction.settle(settlements, worker=worker)
        self.settlements += settlements

    async def execute(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the caller's own."""
        return await self._transaction.execute(sql, *arguments)


def watched_app(app: App, watcher: Watcher) -> App:
    """Return an app for a worker: the same jobs on the same store, both watched.

    The app itself stays as it is. Handlers in processes of their own are not heard of while they
    run.
    """
    view = watched_jobs(app, watcher)

    async def lend() -> Store:
        return WatchedStore(await app.lend(), watcher)

    vars(view)["lend"] = lend
    return view


def watched_jobs(app: App, watcher: Watcher) -> App:
    """Return the same app with handlers that are watched, on its store as it is."""
    view = copy(app)
    view.jobs = {
        kind: job if job.in_process else watched_job(job, watcher) for kind, job in app.jobs.items()
    }
    return view


def watched_job(job: Job[Any, Any], watcher: Watcher) -> Job[Any, Any]:
    """Return the same job with a handler that is watched."""
    function, wants_context = job.function, job.has_context
    watched = job.using()
    watched.has_context = True  # by it the wrapper knows which job it is

    @wraps(function)
    async def on_loop(context: Context, *args: Any, **kwargs: Any) -> Any:
        watcher.began(context.job)
        try:
            return await function(*([context] if wants_context else []), *args, **kwargs)
        except Exception as error:
            watcher.failed(context.job, error)
            raise
        finally:
            watcher.left(context.job)

    @wraps(function)
    def on_thread(context: Context, *args: Any, **kwargs: Any) -> Any:
        watcher.began(context.job)
        try:
            return function(*([context] if wants_context else []), *args, **kwargs)
        except Exception as error:
            watcher.failed(context.job, error)
            raise
        finally:
            watcher.left(context.job)

    watched.function = on_loop if job.is_async else on_thread
    return watched


def is_buried(outcome: Outcome) -> bool:
    """Whether a verdict makes a dead letter: a retry does too, when the attempts are spent."""
    verdict, job = outcome.verdict, outcome.job
    if isinstance(verdict, Retry):
        return verdict.counted and job.attempt >= job.attempts_max
    return isinstance(verdict, Bury)
