"""One call of settle: who settles, when, and what that sets off."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from inturn.model import bounds
from inturn.model.errors import WrongJob
from inturn.model.job import AttemptError
from inturn.model.lease import Lease
from inturn.policy.settlement import (
    Outcome,
    error_text,
    has_result,
    result_texts,
    traceback_text,
)
from inturn.policy.verdict import Bury, Done, Retry
from inturn.store.sqlite import dependents, queue_row
from inturn.store.sqlite.queue_row import QueueRow
from inturn.store.sqlite.rows import with_error
from inturn.store.sqlite.times import Micros, micros_of_seconds, time_of


class Held(msgspec.Struct, frozen=True, gc=False):
    """What the store knows of a job under a lease."""

    id: bytes
    attempts_max: int


class Settler:
    """Gathers what the settlements of one call have in common."""

    def __init__(self, connection: sqlite3.Connection, now: Micros, worker: str) -> None:
        self.connection, self.now, self.worker = connection, now, worker
        self.at = time_of(now)
        self._queues: dict[str, QueueRow] = {}
        self.somebody_waits = dependents.somebody_waits(connection)
        self._done_runs: list[tuple[int, int, int]] = []
        self._done_jobs: list[bytes] = []
        self.wrong: WrongJob | None = None  # the first job that its lease does not hold

    def queue(self, name: str) -> QueueRow:
        """Return a queue, read once."""
        if name not in self._queues:
            self._queues[name] = queue_row.made(self.connection, name)
        return self._queues[name]

    def held(self, lease: Lease, said: Sequence[Outcome]) -> dict[int, Held]:
        """Return the jobs of the log that these outcomes are about, by position.

        Notes the first that is not the one its outcome names.
        """
        if not said:
            return {}
        rows = self.connection.execute(
            "select position, id, attempts_max from job "
            "where lane = ? and position between ? and ?",
            (lease.lane, said[0].job.position, said[-1].job.position),
        )
        held = {position: Held(id, attempts_max) for position, id, attempts_max in rows}
        for outcome in said:
            self.check_job(lease.token, outcome, held[outcome.job.position].id)
        return held

    def check_job(self, token: int, outcome: Outcome, held: bytes) -> None:
        """Note a job that is not the one its lease holds there."""
        if outcome.job.id.bytes != held and self.wrong is None:
            self.wrong = WrongJob(token, outcome.job.position, outcome.job.id)

    def with_failure(self, errors: str | None, attempt: int, verdict: Retry | Bury) -> str:
        """Return a kept history of errors with one more, of this attempt."""
        added = AttemptError(
            attempt=attempt,
            at=self.at,
            worker=self.worker,
            error=error_text(verdict),
            traceback=traceback_text(verdict),
        )
        return with_error(errors, added)

    def keep_results(self, outcomes: Iterable[Outcome]) -> None:
        """Keep what handlers returned, each for its time."""
        kept = []
        for outcome in outcomes:
            verdict = outcome.verdict
            if type(verdict) is Done and has_result(verdict):
                seconds = verdict.result_seconds
                seconds = bounds.RESULT_SECONDS_DEFAULT if seconds is None else seconds
                until = self.now + micros_of_seconds(seconds)
                value, lost = result_texts(verdict)
                kept.append((outcome.job.id.bytes, value, until, lost))
        if kept:
            self.connection.executemany("insert or replace into result values (?, ?, ?, ?)", kept)

    def run_done(self, lane: int, first: int, last: int) -> None:
        """Note that a lane's positions from first to last are done."""
        if self.somebody_waits:
            self._done_runs.append((lane, first, last))

    def job_done(self, id: bytes) -> None:
        """Note that a job that waited by itself is done."""
        if self.somebody_waits:
            self._done_jobs.append(id)

    def admit_dependents(self) -> None:
        """Let in what waited for the jobs that are done now; called when all lanes are written."""
        runs = (dependents.awaited_in_run(self.connection, *run) for run in self._done_runs)
        dependents.admit_after(self.connection, chain(chain.from_iterable(runs), self._done_jobs))
