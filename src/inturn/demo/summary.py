"""What happened in the demo, counted, and whether it is what was promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import msgspec

from inturn.demo.diary import Entry
from inturn.model.job import NewJob


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, counted from the diary and from what the store says."""

    accepted: int
    done: int  # as the store says
    failed: int  # attempts
    died: int  # dead letters there were on the way
    dead: int  # dead letters there are now
    killed: int  # workers, with a signal they cannot hear
    taken_over: int  # jobs that a dead worker had begun and another finished
    duplicates: int  # jobs whose effect happened more than once
    order_violations: int
    exit_codes: Sequence[int]  # of the workers that were told to stop
    check: Sequence[str]
    seconds: float

    def faults(self) -> list[str]:
        """Return a sentence for everything that is not as promised."""
        wanted = {
            "every accepted job is done": self.done == self.accepted > 0,
            "ben's order failed once, and cleo's at both of its attempts": self.failed >= 3,
            "the hopeless order became a dead letter": self.died == 1,
            "no dead letter is left": self.dead == 0,
            "a worker was killed": self.killed == 1,
            "what it had begun was finished by another": self.taken_over > 0,
            "no effect happened twice": self.duplicates == 0,
            "no job overtook another of its key": self.order_violations == 0,
            "the other workers stopped cleanly": set(self.exit_codes) == {0},
            "store.check() found nothing": not self.check,
        }
        return [f"not so: {promise}" for promise, kept in wanted.items() if not kept]


def duplicates(entries: Sequence[Entry]) -> int:
    """Count the effects that happened again."""
    done = Counter(entry.job for entry in entries if entry.event == "done")
    return sum(count - 1 for count in done.values())


def taken_over(entries: Sequence[Entry]) -> int:
    """Count the jobs that one process began, and left, and another finished."""
    ended = {(one.job, one.token) for one in entries if one.event != "started"}
    left = {
        one.job: one.pid
        for one in entries
        if one.event == "started" and (one.job, one.token) not in ended
    }
    return sum(
        one.event == "done" and one.job in left and left[one.job] != one.pid for one in entries
    )


def order_violations(accepted: Sequence[NewJob], entries: Sequence[Entry]) -> int:
    """Count the jobs that were begun before one they had to come after was done.

    That is the one accepted before it under its key, and each it was told to wait for.
    """
    begun: dict[UUID, int] = {}
    done: dict[UUID, int] = {}
    for place, entry in enumerate(entries):
        first = begun if entry.event == "started" else done
        if entry.event != "failed":
            first.setdefault(entry.job, place)
    never = len(entries)
    count = 0
    before: dict[str, UUID] = {}
    for job in accepted:
        earlier = set(job.after)
        if job.key is not None:
            earlier |= {before[job.key]} if job.key in before else set()
            before[job.key] = job.id
        count += any(begun.get(job.id, never) < done.get(one, never) for one in earlier)
    return count
