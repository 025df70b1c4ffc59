"""How the jobs of an executor with a store end, as its worker tells the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from uuid import UUID

from inturn.executor.report import ErrorHandler, Failure
from inturn.log import guarded, log_event, log_listener_failure
from inturn.model import events
from inturn.model.errors import AttemptFailed, JobCancelled
from inturn.model.job import JobState, JobView, LeasedJob, NewJob, Ticket
from inturn.model.lease import Claim
from inturn.policy.raised import describe
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry
from inturn.worker.failures import Barrier, Failures
from inturn.worker.watcher import Hand, is_buried

ENDED = (JobState.DONE, JobState.DEAD, JobState.CANCELLED)


class _Attempt:
    """An attempt that runs, known to all that its handler starts: some of that may go on after."""

    __slots__ = ("has_ended", "job", "of")

    def __init__(self, of: Ends, job: LeasedJob) -> None:
        self.of, self.job = of, job
        self.has_ended = False


_RUNS: ContextVar[_Attempt | None] = ContextVar("inturn_runs", default=None)


class Ends:
    """A watcher that knows what was accepted here and has not ended, and tells of what has."""

    def __init__(
        self, listeners: Sequence[events.Listener], error_handler: ErrorHandler | None
    ) -> None:
        self.awaited: dict[UUID, NewJob] = {}  # accepted here, and not seen to end
        self.arriving: set[UUID] = set()  # of those: on their way into the store
        self.in_hand = Hand()
        self.failures = Failures()  # for barriers
        self._errors: dict[UUID, Exception] = {}
        self._listeners, self._error_handler = tuple(listeners), error_handler
        self._waiting: set[asyncio.Event] = set()

    # What a watcher hears

    def accepted(self, jobs: Sequence[NewJob], tickets: Sequence[Ticket]) -> None:
        """What handlers submit in transactions of their own is not this executor's to wait for."""

    def claiming(self, queue: str) -> None:
        """Looking changes nothing."""

    def claimed(self, queue: str, claims: Sequence[Claim]) -> None:
        """Note what the worker has in hand."""
        self.in_hand.take(claims)
        self.failures.claimed(job.id for claim in claims for job in claim.jobs)

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Note what ended, and tell who wants to know."""
        for settlement in settlements:
            self.in_hand.settle(settlement)
            for outcome in settlement.outcomes:
                self._note(outcome)
        self._wake()

    def began(self, job: LeasedJob) -> None:
        """Let the handler be known as one of ours."""
        _RUNS.set(_Attempt(self, job))

    def failed(self, job: LeasedJob, error: Exception) -> None:
        """Keep what a handler raised until its job is settled."""
        self._errors[job.id] = error

    def left(self, job: LeasedJob) -> None:
        """Let what the handler leaves behind be known as nobody's."""
        if (attempt := _RUNS.get()) is not None:
            attempt.has_ended = True

    def _note(self, outcome: Outcome) -> None:
        job, verdict = outcome.job, outcome.verdict
        error = self._errors.pop(job.id, None)
        if isinstance(verdict, Release):
            return
        key = job.key or ""
        if isinstance(verdict, Retry | Bury):
            if error is None:
                error = AttemptFailed(job.kind, job.id, job.attempt, verdict.error)
        else:
            error = None
        self.tell(events.Ran(key, 0, job.attempt, outcome.seconds, error))
        if isinstance(verdict, Done):
            self.awaited.pop(job.id, None)
        elif is_buried(outcome) and error is not None:
            self.awaited.pop(job.id, None)
            self.failures.heard(key, job.id, describe(error))
            self._report(events.Failed, key, job.attempt, error)
        elif isinstance(verdict, Retry) and error is not None:
            self.tell(events.Retried(key, 0, job.attempt, verdict.delay_seconds, error))

    def _report(
        self,
        happened: type[events.Failed | events.Cancelled],
        key: str,
        attempts: int,
        error: Exception,
    ) -> None:
        handler = self._error_handler
        self.tell(happened(key, 0, attempts, error, handler is not None))
        if handler is None:
            return
        try:
            handler(Failure(key, 0, attempts, error))
        except BaseException as failed:  # whatever it raises, jobs go on
            self.tell(events.HandlerFailed(key, failed))

    # What an executor asks

    def expect(self, jobs: Iterable[NewJob]) -> None:
        """Wait for the ends of jobs that are about to be accepted."""
        expected = {job.id: job for job in jobs}
        self.awaited.update(expected)
        self.arriving.update(expected)

    def arrived(self, jobs: Iterable[NewJob]) -> None:
        """Hear that the store has answered: from now on it knows jobs that were accepted."""
        self.arriving.difference_update(job.id for job in jobs)

    def forget(self, ids: Iterable[UUID]) -> None:
        """Wait no longer for jobs that were not accepted, or ended elsewhere."""
        for id in ids:
            self.awaited.pop(id, None)

    def cancelled(self, view: JobView) -> None:
        """Tell that a job that was accepted here was cancelled, once, and wait for it no longer.

        One whose submitter does not know yet that it was accepted may be taken back by it.
        """
        id = view.job.id
        if id not in self.arriving and self.awaited.pop(id, None) is not None:
            key, by = view.job.key or "", view.cancelled_by
            error = JobCancelled(key, f"by {by}" if by else view.reason or "nobody says why")
            self._report(events.Cancelled, key, view.attempt, error)
            self._wake()

    def found(self, id: UUID, view: JobView | None) -> bool:
        """Hear what the store says of a job that it has been given; say whether that has ended.

        ``view``: None if it ended so long ago that it was pruned.
        """
        if view is not None and view.state is JobState.CANCELLED:
            self.cancelled(view)
        elif view is None or view.state in ENDED:
            self.forget([id])
        else:
            return False
        return True

    def of_key(self, key: str) -> list[UUID]:
        """Return the jobs of a key in hand: those that run, and those whose end is being told."""
        return [job.id for job in self.in_hand.jobs if job.key == key]

    def found_dead(self, barrier: Barrier, id: UUID, error: str) -> None:
        """Note what a barrier found in the store, maybe before the worker hears that it is so."""
        self.failures.found(barrier, id, error, is_in_hand=id in self.of_key(barrier.key))

    def current(self) -> LeasedJob | None:
        """Return the job whose handler calls this and has not ended, if it is one of ours."""
        attempt = _RUNS.get()
        if attempt is None or attempt.of is not self or attempt.has_ended:
            return None
        return attempt.job

    async def next(self, seconds: float) -> bool:
        """Wait until anything ends; say whether it did within a time."""
        woken = asyncio.Event()
        self._waiting.add(woken)
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(woken)
        return True

    def tell(self, event: events.Event) -> None:
        """Tell the log and the listeners; one that fails harms nothing."""
        is_said = isinstance(event, events.Failed | events.Retried)  # in the worker's log
        if not is_said and not (self.awaited and isinstance(event, events.Stopped)):
            guarded(log_event, event)  # that all has ended is not so if something was left
        for listener in self._listeners:
            try:
                listener(event)
            except BaseException as error:  # whatever it is, the others are told
                guarded(log_listener_failure, listener, error)

    def _wake(self) -> None:
        for woken in self._waiting:
            woken.set()
