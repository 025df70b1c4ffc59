"""Jobs that wait for one another in a circle, so that none of them could ever run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

_NAMED_MAX = 5


def name_circles(waits: Iterable[tuple[UUID, UUID]], *, sentences_max: int) -> list[str]:
    """Return a sentence for each circle among jobs and what each waits for."""
    return [_sentence(circle) for circle in circles(waits)[:sentences_max]]


def circles(waits: Iterable[tuple[UUID, UUID]]) -> list[list[UUID]]:
    """Return circles that share no job, at least one ahead of each job that waits for ever.

    Looks at every wait once: what waits for nothing is taken off, and then what waited only for it.
    """
    held_by: defaultdict[UUID, set[UUID]] = defaultdict(set)
    waiters: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for job, on_job in waits:
        held_by[job].add(on_job)
        waiters[on_job].append(job)
    free = [job for job in waiters if job not in held_by]
    while free:
        ended = free.pop()
        for job in waiters.pop(ended, ()):
            held_by[job].discard(ended)
            if not held_by[job]:
                del held_by[job]
                free.append(job)
    return _walked(held_by)


def _walked(held_by: dict[UUID, set[UUID]]) -> list[list[UUID]]:
    """Return the circles that walks end in, from each job to one that it waits for."""
    found: list[list[UUID]] = []
    while held_by:
        job = next(iter(held_by))
        walk: list[UUID] = []
        ahead: dict[UUID, UUID] = {}
        while job in held_by:
            ahead[job] = next(iter(held_by.pop(job)))
            walk.append(job)
            job = ahead[job]
        if job in ahead:
            found.append(walk[walk.index(job) :])
    return found


def _sentence(circle: list[UUID]) -> str:
    if len(circle) == 1:
        return f"job {circle[0]} waits for itself."
    named = [str(job) for job in circle[:_NAMED_MAX]]
    if len(circle) > _NAMED_MAX:
        named.append(f"{len(circle) - _NAMED_MAX} more")
    return f"jobs wait for one another in a circle: {' → '.join([*named, str(circle[0])])}."
