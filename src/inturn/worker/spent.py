"""What is said to whoever runs a worker again."""

from __future__ import annotations

from inturn.model.errors import InturnError


class WorkerSpent(InturnError):
    """A worker was to run although it had run already, or still does. It did nothing."""

    def __init__(self, worker: str) -> None:
        super().__init__(
            f"worker {worker} has been run already, and a Worker runs once. Make another with "
            f"Worker(app, …); the app, and what it has open, may be the same."
        )
