"""How long a verb goes on trying while the server is away, or undoes it for crossing another."""

from __future__ import annotations

import random
from time import monotonic

import asyncpg

from inturn.model.errors import StoreBusy
from inturn.store.postgres.faults import GONE, crossed, is_crossed, told

PAUSE_SECONDS_FIRST = 0.05
PAUSE_SECONDS_MAX = 1.0


class Patience:
    """The patience of one verb whose first try has failed: until a time, by ``monotonic``."""

    def __init__(self, ends_at: float) -> None:
        self._ends_at = ends_at
        self._pause = PAUSE_SECONDS_FIRST
        self._cut: Exception | None = None  # from a try that was sent, and may be committed

    def pause_after(self, error: Exception, *, is_closed: bool) -> float:
        """Return how many seconds to wait before the next try; raise what the caller is to hear if
        there is none.

        ``is_closed``: nobody wants connections any more.
        """
        with told():
            if isinstance(error, StoreBusy):
                raise self._cut or error
            if isinstance(error, GONE):
                self._cut = error
                if self._is_over or is_closed:
                    raise error
                pause, self._pause = self._pause, min(self._pause * 2, PAUSE_SECONDS_MAX)
                return pause
            if isinstance(error, asyncpg.PostgresError) and is_crossed(error):
                if self._is_over:
                    raise crossed(error) from error
                # Each at another moment, or those who crossed would cross again.
                return random.uniform(0, self._pause)
            raise error

    @property
    def _is_over(self) -> bool:
        return monotonic() + self._pause > self._ends_at


def trouble_of(error: Exception, before: str | None) -> str | None:
    """Return why the server cannot be reached, by an error; what was known before, if that is not
    what it tells.
    """
    if isinstance(error, GONE):
        return str(error) or type(error).__name__
    return None if isinstance(error, asyncpg.PostgresError) else before  # one that it answered
