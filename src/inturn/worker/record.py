"""A worker's record: counts what became of its jobs, and tells what a person should know."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from inturn.log import guarded, log_later, log_listener_failure, log_result_lost, log_worker_event
from inturn.model import worker_events as events
from inturn.model.job import LeasedJob
from inturn.policy.settlement import PLAINLY_DONE, Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry
from inturn.worker.stop import STILL_RUNS

EVENT_CHARS_MAX = 700
TRACEBACK_CHARS_MAX = 2_000


class Record:
    """Counts, and tells the log and every other listener."""

    def __init__(self, worker: str, listeners: Sequence[events.Listener] = ()) -> None:
        self.counts = events.Counts()
        self._worker = worker
        self._listeners = (self._log, *listeners)
        self.where = "-A MODULE:APP"  # how a command that the log names finds the worker's store
        self.tells_done = False  # of each job that is done, too

    def settled(self, said: Iterable[Settlement]) -> None:
        """Take in what the store was told and took."""
        for one in said:
            for outcome in one.outcomes:
                if outcome.verdict is PLAINLY_DONE and not self.tells_done:  # as most are
                    self.counts.done += 1
                else:
                    self.outcome(outcome)

    def outcome(self, outcome: Outcome) -> None:
        """Take in what became of one job."""
        verdict = outcome.verdict
        if type(verdict) is Done:
            self.counts.done += 1
            if verdict.result_lost is not None:
                job = outcome.job
                guarded(log_result_lost, job.kind, job.id, verdict.result_lost)
            if self.tells_done:
                self._tell_done(outcome)
        else:
            self._not_done(outcome)

    def buried(self, jobs: int) -> None:
        """Take in that a sweep buried jobs that killed their workers."""
        if jobs:
            self.counts.dead += jobs
            self.tell(events.BuriedDeadly(worker=self._worker, jobs=jobs))

    def lost(self, jobs: int, cancelled: int = 0, going_on: int = 0) -> None:
        """Take in that jobs are someone else's now."""
        if jobs:
            self.counts.lost += jobs
            self.tell(
                events.LeasesLost(
                    worker=self._worker, jobs=jobs, cancelled=cancelled, going_on=going_on
                )
            )

    def tell(self, event: events.WorkerEvent) -> None:
        """Tell every listener; what one of them raises harms nothing else."""
        for listener in self._listeners:
            try:
                listener(event)
            except BaseException as error:  # SystemExit, say: a listener does not end a worker
                guarded(log_listener_failure, listener, error)

    def _log(self, event: events.WorkerEvent) -> None:
        log_worker_event(event, self.where)

    def tell_aside(self, event: events.WorkerEvent) -> None:
        """Tell of an event beside this thread, which has signals to hear: nobody may read it."""
        threading.Thread(target=self.tell, args=[event], daemon=True).start()

    def _tell_done(self, outcome: Outcome) -> None:
        job = outcome.job
        self.tell(
            events.JobDone(
                worker=self._worker,
                job=job.id,
                queue=job.queue,
                kind=job.kind,
                key=job.key,
                attempt=job.attempt,
                seconds=outcome.seconds,
            )
        )

    def _not_done(self, outcome: Outcome) -> None:
        job, verdict = outcome.job, outcome.verdict
        match verdict:
            case Release():
                self.counts.released += 1
            case Retry() if verdict is STILL_RUNS:
                self.counts.released += 1
            case Retry() if not verdict.counted:  # nothing failed: it asked to come later
                self.counts.released += 1
                said, seconds = _clipped(verdict.error), verdict.delay_seconds
                guarded(log_later, self._worker, job.kind, job.id, said, seconds)
            case Retry() if job.attempt < job.attempts_max:
                self.counts.failed += 1
                self.tell(
                    events.AttemptFailed(
                        **self._failure(job, verdict),
                        attempts_max=job.attempts_max,
                        error=_clipped(verdict.error),
                        delay_seconds=verdict.delay_seconds,
                    )
                )
            case Retry() | Bury():
                self.counts.dead += 1
                reason = verdict.reason if isinstance(verdict, Bury) else None
                self.tell(
                    events.Died(
                        **self._failure(job, verdict), reason=_clipped(reason or verdict.error)
                    )
                )

    def _failure(self, job: LeasedJob, verdict: Retry | Bury) -> dict[str, Any]:
        """Return what there is to say of any attempt that failed."""
        return {
            "worker": self._worker,
            "job": job.id,
            "queue": job.queue,
            "kind": job.kind,
            "key": job.key,
            "attempt": job.attempt,
            "traceback": None if verdict.traceback is None else _end_of(verdict.traceback),
        }


def _clipped(text: str) -> str:
    """Return the beginning of an error. The store keeps it whole; here many may share a pipe,
    which takes only short lines in one piece.
    """
    return text if len(text) <= EVENT_CHARS_MAX else f"{text[:EVENT_CHARS_MAX]}…"


def _end_of(traceback: str) -> str:
    """Return the end of a traceback, in whole lines, for the same reason."""
    if len(traceback) <= TRACEBACK_CHARS_MAX:
        return traceback
    _, _, end = traceback[-TRACEBACK_CHARS_MAX:].partition("\n")
    return f"…\n{end}"
