"""Jobs as they end, taken by the handful: for who runs many and settles them together."""

from __future__ import annotations

from inturn.executor.home import LoopSignal
from inturn.executor.ticket import LocalTicket


class Completions:
    """Tickets of jobs that have ended and were not taken yet. One coroutine takes."""

    __slots__ = ("_ended", "_signal")

    def __init__(self) -> None:
        self._ended: list[LocalTicket] = []
        self._signal: LoopSignal | None = None

    def __len__(self) -> int:
        """Return how many have ended and were not taken."""
        return len(self._ended)

    def add(self, ticket: LocalTicket) -> None:
        """Put in the ticket of a job that has ended; from any thread."""
        self._ended.append(ticket)
        signal = self._signal
        if signal is not None:
            self._signal = None
            signal.fire()

    async def take(self) -> list[LocalTicket]:
        """Wait until a job has ended, then return all that have since the last time."""
        while not self._ended:
            signal = self._signal = LoopSignal()
            if not self._ended:  # else one ended before it could see the signal
                await signal.wait()
        return self.take_now()

    def take_now(self) -> list[LocalTicket]:
        """Return all that have ended since the last time, perhaps none."""
        count = len(self._ended)
        taken, self._ended[:count] = self._ended[:count], []
        return taken
