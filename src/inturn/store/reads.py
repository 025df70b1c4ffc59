"""The store's reading verbs: one job and many, lanes, queues, workers, statistics, the time."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from inturn.model import bounds
from inturn.model.admissible import (
    check_filter,
    check_id,
    check_ids,
    check_name,
    check_number,
    check_queues,
    check_state,
    check_time,
    listed,
)
from inturn.model.job import UNFINISHED, JobState, JobView
from inturn.model.lane import LaneView, QueueStatus
from inturn.model.worker import Stat, WorkerView
from inturn.store.engine import Engine
from inturn.store.paging import Asked, Page, check_rows_max


class Reads(Engine):
    """What a store answers without changing anything."""

    async def job(self, job: UUID) -> JobView:
        """Return a job with its state and place in line. Raises ``UnknownJob``."""
        check_id("job", job)
        return await self._job(job)

    async def jobs(
        self,
        *,
        state: JobState | None = None,
        finished: bool = True,
        queue: str | None = None,
        kind: str | None = None,
        key: str | None = None,
        cursor: str | None = None,
        rows_max: int = 100,
    ) -> Page[JobView]:
        """List jobs by id, newest first.

        Without a ``state``, ``finished=False`` leaves out done and cancelled jobs.
        """
        states = [check_state(state)] if state is not None or finished else UNFINISHED
        check_filter(queue=queue, kind=kind, key=key)
        check_rows_max(rows_max)
        return await self._jobs(states, Asked(queue, kind, key, cursor, rows_max))

    async def jobs_ending(self, ending: str) -> list[UUID]:
        """Return the jobs, ten at most, whose id ends with these hexadecimal digits.

        It looks among the newest million jobs that were accepted, and all that are set aside.
        """
        return await self._jobs_ending(ending.lower())

    async def ended(self, jobs: Iterable[UUID]) -> dict[UUID, JobState | None]:
        """Return how those of the jobs ended that have: done, dead, cancelled; in one statement.

        None stands for a job that is not here, or no more: its history was pruned.
        """
        jobs = listed("jobs", jobs)
        check_ids("job", jobs)
        return await self._ended(jobs) if jobs else {}

    async def wait_ended(
        self, queues: Iterable[str], seen: int = 0, *, timeout_seconds: float
    ) -> int:
        """Sleep until jobs of the queues may have ended; return what to give as ``seen`` next time.

        Returns at once if something may have ended since ``seen``, and ``seen`` itself if nothing
        did in all that time. A hint, never a promise: look with ``ended`` now and then.
        """
        queues = listed("queues", queues)
        check_queues(queues)
        check_number("timeout_seconds", timeout_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
        return await self._wait_ended(queues, seen, timeout_seconds)

    async def result(self, job: UUID) -> str | None:
        """Return the JSON text a job's handler returned, while it is kept.

        Raises ``ResultLost`` if it returned what could not be.
        """
        check_id("job", job)
        return await self._result(job)

    async def explain(self, job: UUID) -> str:
        """Say in one honest sentence why a job is where it is. Raises ``UnknownJob``."""
        check_id("job", job)
        return await self._explain(job)

    async def lanes(
        self, queue: str, *, key: str | None = None, cursor: str | None = None, rows_max: int = 100
    ) -> Page[LaneView]:
        """List a queue's lanes, or the one lane of a key."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
        check_rows_max(rows_max)
        return await self._lanes(queue, key, cursor, rows_max)

    async def queues(self) -> list[QueueStatus]:
        """Return every queue's settings, depth and oldest age.

        Costs a look at each lane that has work, and none at the jobs in it. On PostgreSQL the lanes
        of a queue that has more than 1,000 are counted at most once a second.
        """

    async def workers(self) -> list[WorkerView]:
        """Return the workers that were heard of lately, the latest first."""

    async def stats(self, queue: str, *, since: datetime) -> list[Stat]:
        """Return what was settled per kind and minute since a time."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_time("since", since)
        return await self._stats(queue, since)

    async def now(self) -> datetime:
        """Return the store's time."""
