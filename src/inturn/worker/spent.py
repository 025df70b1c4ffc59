"""A worker's one run, and what is said to whoever runs it again."""

from __future__ import annotations

from inturn.model.errors import InturnError
from inturn.model.forks import here


class WorkerSpent(InturnError):
    """A worker was to run although it had run already, or still does. It did nothing."""

    def __init__(self, worker: str) -> None:
        super().__init__(
            f"worker {worker} has been run already, and a Worker runs once. Make another with "
            f"Worker(app, …); the app, and what it has open, may be the same."
        )


class OneRun:
    """Lets a worker run once. What keeps it from beginning, such as a store that is away, does not
    count: it may be tried again.

    ``origin``: the process in which it runs.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._is_under_way = self._has_begun = False
        self.origin = here()

    def enter(self) -> None:
        """Begin a run, or refuse to."""
        if self._is_under_way or self._has_begun:
            raise WorkerSpent(self._worker)
        self._is_under_way, self.origin = True, here()

    def begin(self) -> None:
        """Let there be no other: from here on, things are started that cannot be started twice."""
        self._has_begun = True

    def leave(self) -> None:
        """End a run."""
        self._is_under_way = False
