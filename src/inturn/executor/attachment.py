"""Jobs that are cancelled together with the task that submitted them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from inturn.executor.ticket import LocalTicket

if TYPE_CHECKING:
    from inturn.executor.turns import Turns


class Attachments:
    """Which unfinished jobs belong to which task. One callback a task, however many its jobs."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._lock = threading.Lock()
        self._jobs: WeakKeyDictionary[asyncio.Task[Any], set[LocalTicket]] = WeakKeyDictionary()

    def attach(self, ticket: LocalTicket) -> None:
        """Cancel a job when the task that runs here ends by being cancelled."""
        owner = asyncio.current_task()
        assert owner is not None
        with self._lock:
            jobs = self._jobs.setdefault(owner, set())
        if not jobs:
            owner.remove_done_callback(self._on_done)
            owner.add_done_callback(self._on_done)
        jobs.add(ticket)

        def detach() -> None:
            jobs.discard(ticket)

        if not self._turns.on_end(ticket, detach):
            detach()

    def _on_done(self, owner: asyncio.Task[Any]) -> None:
        with self._lock:
            jobs = self._jobs.pop(owner, set())
        if owner.cancelled():
            for ticket in list(jobs):
                self._turns.cancel(ticket, "the task that submitted it was cancelled")
