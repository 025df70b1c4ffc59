"""Jobs that are cancelled together with the task, or the job, that submitted them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from inturn.executor.loop_slots import SlotWorker
from inturn.executor.ticket import LocalTicket
from inturn.model.errors import JobCancelled
from inturn.policy.raised import is_a

if TYPE_CHECKING:
    from inturn.executor.turns import Turns


class Attachments:
    """Which unfinished jobs belong to which task or job. One callback each, however many they are.

    A job that submits others has them for itself: its task is its slot's, which goes on.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._lock = threading.Lock()
        self._of_callers: WeakKeyDictionary[asyncio.Task[Any], set[LocalTicket]] = (
            WeakKeyDictionary()
        )
        self._of_jobs: dict[LocalTicket, set[LocalTicket]] = {}  # of each until it has ended

    def attach(self, ticket: LocalTicket) -> None:
        """Cancel a job when the task or the job that runs here ends by being cancelled."""
        caller = asyncio.current_task()
        assert caller is not None
        owner = caller.slot.ticket if isinstance(caller, SlotWorker) else None
        jobs = self._of_caller(caller) if owner is None else self._of_job(owner)
        jobs.add(ticket)

        def detach() -> None:
            jobs.discard(ticket)

        if not self._turns.on_end(ticket, detach):
            detach()

    def _of_caller(self, owner: asyncio.Task[Any]) -> set[LocalTicket]:
        with self._lock:
            jobs = self._of_callers.setdefault(owner, set())
        if not jobs:
            owner.remove_done_callback(self._on_done)
            owner.add_done_callback(self._on_done)
        return jobs

    def _of_job(self, owner: LocalTicket) -> set[LocalTicket]:
        with self._lock:
            if owner in self._of_jobs:
                return self._of_jobs[owner]
            jobs = self._of_jobs[owner] = set()
        owner.turns.on_end(owner, lambda: self._on_end(owner))
        return jobs

    def _on_done(self, owner: asyncio.Task[Any]) -> None:
        with self._lock:
            jobs = self._of_callers.pop(owner, set())
        if owner.cancelled():
            self._cancel(jobs, "the task that submitted it was cancelled")

    def _on_end(self, owner: LocalTicket) -> None:
        with self._lock:
            jobs = self._of_jobs.pop(owner)
        if is_a(owner.error, JobCancelled):
            self._cancel(jobs, "the job that submitted it was cancelled")

    def _cancel(self, jobs: Iterable[LocalTicket], why: str) -> None:
        for ticket in list(jobs):
            self._turns.cancel(ticket, why)
