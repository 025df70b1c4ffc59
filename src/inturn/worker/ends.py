"""Ends of jobs that are written with rows of an application, as many together as have come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from inturn.model.job import LeasedJob
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Done
from inturn.queue.together import Together
from inturn.store.change import Change
from inturn.store.queries import Query

if TYPE_CHECKING:
    from inturn.worker.runs import Run, Runs

DONE = Done()


class End(NamedTuple):
    """A job that is done, and the row that says so."""

    run: Run
    job: LeasedJob
    query: Query[Any]
    row: Any


class Ends(Together[End, None]):
    """Writes ends in one transaction, and those of a lease as one settlement."""

    def __init__(self, runs: Runs) -> None:
        super().__init__()
        self._runs = runs

    async def handle_all(self, items: Sequence[End]) -> Sequence[None]:
        """Settle jobs as done, with their rows."""
        rows: dict[Query[Any], list[Any]] = {}
        jobs: dict[Run, list[LeasedJob]] = {}
        for end in items:
            rows.setdefault(end.query, []).append(end.row)
            jobs.setdefault(end.run, []).append(end.job)
        change = Change(
            rows=list(rows.items()),
            settle=[
                Settlement(run.lease, [Outcome(job, DONE) for job in some])
                for run, some in jobs.items()
            ],
            worker=self._runs.worker,
        )
        await self._runs.store.apply(change)
        return [None] * len(items)
