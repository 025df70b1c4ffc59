"""A worker's one run, and what is said to whoever runs it again."""

from __future__ import annotations

from inturn.model.errors import WorkerSpent


class OneRun:
    """Lets a worker run once. What keeps it from beginning, such as a store that is away, does not
    count: it may be tried again.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._is_under_way = self._has_begun = False

    def enter(self) -> None:
        """Begin a run, or refuse to."""
        if self._is_under_way or self._has_begun:
            raise WorkerSpent(self._worker)
        self._is_under_way = True

    def begin(self) -> None:
        """Let there be no other: from here on, things are started that cannot be started twice."""
        self._has_begun = True

    def leave(self) -> None:
        """End a run."""
        self._is_under_way = False
