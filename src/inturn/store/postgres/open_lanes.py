"""Which open lane the jobs of a sort went to last, so that the next need not look for one."""

from __future__ import annotations

from inturn.model.job import NewJob

USES_MAX = 100
"""So often a lane is taken before the others are looked at again: a long line is shared out."""

SORTS_MAX = 1_000

Sort = tuple[str, str, int, int]
"""What the jobs of an open lane have in common: queue, kind, priority, round."""


class OpenLanes:
    """Remembers a lane until it is given out; whoever was well served says so.

    So whatever goes wrong with a lane, the next try does without it.
    """

    def __init__(self) -> None:
        self._known: dict[Sort, tuple[int, int]] = {}  # the lane, and how often it was taken

    def take(self, sort: Sort) -> tuple[int | None, int]:
        """Return the lane for jobs of a sort, if one is known, and how often it was taken."""
        lane, uses = self._known.pop(sort, (None, 0))
        return (lane, uses) if uses < USES_MAX else (None, 0)

    def learn(self, sort: Sort, lane: int, uses: int) -> None:
        """Remember where a job of a sort went."""
        if len(self._known) >= SORTS_MAX:
            self._known.clear()
        self._known[sort] = (lane, uses)


def sort_of(job: NewJob) -> Sort:
    """Return the sort of a job without a key."""
    return (job.queue, job.kind, job.priority, job.round)
