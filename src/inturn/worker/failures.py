"""What failed of each key, until a barrier tells it: once, whoever learned of it first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from inturn.model import bounds
from inturn.model.errors import EarlierFailure


@dataclass(slots=True, eq=False)
class Barrier:
    """Someone who waits for the jobs of a key that came before."""

    key: str
    covered: set[UUID] = field(default_factory=set)  # the jobs that came before
    told: set[UUID] = field(default_factory=set)  # by other barriers since this one began


@dataclass(slots=True)
class Untold:
    """The failures of one key: those that came before any barrier that waits, and the others."""

    count: int = 0
    first: str = ""
    errors: dict[UUID, str] = field(default_factory=dict)

    def add(self, count: int, first: str) -> None:
        """Add failures that every barrier is to tell which comes to its end now."""
        self.first = self.first if self.count else first
        self.count += count

    def settle_down(self) -> None:
        """Remember no longer which jobs they were, for nobody waits who would have to know."""
        if self.errors:
            self.add(len(self.errors), next(iter(self.errors.values())))
            self.errors.clear()


class Failures:
    """The failures that no barrier has told yet.

    Two learn of one: the worker, as the store answers that it has settled the job, and a barrier
    that asks the store what became of it, which may know before that answer has come. Which jobs
    failed is remembered only while a barrier of their key waits, so that a key that fails for ever
    costs no more than one that failed once.
    """

    def __init__(self) -> None:
        self._untold: dict[str, Untold] = {}  # by key, the one that failed last at the end
        self._barriers: dict[str, list[Barrier]] = {}
        self._unheard: set[UUID] = set()  # found in the store, and not heard from the worker yet

    # Learning of them

    def heard(self, key: str, id: UUID, error: str) -> None:
        """Hear from the worker that a job failed for good."""
        if id in self._unheard:  # a barrier has found it before
            self._unheard.discard(id)
        else:
            self._note(key, id, error)

    def found(self, barrier: Barrier, id: UUID, error: str, *, is_in_hand: bool) -> None:
        """Note a failure that a barrier found in the store.

        ``is_in_hand``: the worker has it, and will hear of its end.
        """
        if id in barrier.told or id in self._unheard:
            return
        if is_in_hand:
            self._unheard.add(id)
        self._note(barrier.key, id, error)

    def claimed(self, ids: Iterable[UUID]) -> None:
        """Hear that jobs begin anew: someone took them back from the dead letters, maybe."""
        if self._unheard:
            self._unheard.difference_update(ids)

    # Telling them

    @contextmanager
    def barrier(self, key: str) -> Iterator[Barrier]:
        """Begin to wait for a key. From now on it is remembered which of its jobs fail."""
        barrier = Barrier(key)
        waiting = self._barriers.setdefault(key, [])
        waiting.append(barrier)
        try:
            yield barrier
        finally:
            waiting.remove(barrier)
            if not waiting:
                del self._barriers[key]
                if (untold := self._untold.get(key)) is not None:
                    untold.settle_down()

    def cover(self, barrier: Barrier, ids: Iterable[UUID]) -> None:
        """Have a barrier tell of these jobs if they fail, and of all that failed until now."""
        barrier.covered.update(ids)
        if (untold := self._untold.get(barrier.key)) is not None:
            barrier.covered.update(untold.errors)

    def tell(self, barrier: Barrier) -> EarlierFailure | None:
        """Return what a barrier has to tell, which no other will tell again."""
        untold = self._untold.get(barrier.key)
        if untold is None:
            return None
        ids = [id for id in untold.errors if id in barrier.covered]
        told = Untold(untold.count, untold.first, {id: untold.errors.pop(id) for id in ids})
        untold.count = 0
        told.settle_down()
        if not untold.errors:
            del self._untold[barrier.key]
        for other in self._barriers[barrier.key]:
            if other is not barrier:
                other.told.update(ids)
        return EarlierFailure(barrier.key, told.count, told.first) if told.count else None

    def leave(self, failures: Iterable[EarlierFailure]) -> None:
        """Leave to the next barrier what one had to tell, and nobody was there to hear."""
        for one in failures:
            self._entry(one.key).add(one.failures, one.error)

    def _note(self, key: str, id: UUID, error: str) -> None:
        untold = self._entry(key)
        untold.errors.setdefault(id, error)
        if key not in self._barriers:
            untold.settle_down()

    def _entry(self, key: str) -> Untold:
        """Return a key's failures, which are now the last to be forgotten."""
        untold = self._untold[key] = self._untold.pop(key, Untold())
        if len(self._untold) > bounds.FAILED_KEYS_MAX:
            del self._untold[next(iter(self._untold))]
        return untold
