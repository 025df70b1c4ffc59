"""Calls that someone submits to a durable executor, and may give up, from whichever loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from inturn.model.job import NewJob
from inturn.queue.job import Call
from inturn.queue.sending import free, hold
from inturn.queue.ticket import Ticket


class Submission:
    """Calls on their way to the executor's loop, where it is known first what becomes of them.

    A submitter on another loop that is cancelled has to hear it from there. Until then the calls
    cannot be submitted again: it would be the job that is just being taken back.
    """

    def __init__(self, calls: Sequence[Call[Any]]) -> None:
        hold(calls)
        self.calls = calls
        self.jobs: list[NewJob] = [call.new for call in calls]
        self.tickets: Sequence[Ticket[Any]] | None = None  # of what is accepted, and not taken back
        self.is_being_taken_back = False
        self._home: asyncio.AbstractEventLoop | None = None
        self._is_given_up = False
        self._deciding = threading.Lock()  # which came first: that it began, or was given up
        self._known = asyncio.Event()

    # On the executor's loop

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Let the calls be accepted inside, unless they were given up before."""
        with self._deciding:
            if self._is_given_up:
                raise asyncio.CancelledError
            self._home = asyncio.get_running_loop()
        try:
            yield
        finally:
            if not self.is_being_taken_back:
                self.end()

    def end(self) -> None:
        """Hear that nothing more becomes of the calls."""
        if not self._known.is_set():
            if self.tickets is None:
                free(self.calls)
            self._known.set()

    async def known(self) -> None:
        """Wait until it is known what became of them."""
        await self._known.wait()

    # On the submitter's

    def give_up(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop that is to be told that nobody waits for the tickets any more.

        None if it knows: it is this one, or the calls have not come there, and never will.
        """
        with self._deciding:
            self._is_given_up = True
        if self._home is None:
            self.end()
        return None if self._home is asyncio.get_running_loop() else self._home
