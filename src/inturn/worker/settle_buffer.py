"""What became of jobs, until the store has taken it: in calls that fit, with the next claims."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from inturn.model.errors import LeaseLost
from inturn.model.lease import Claim, Wish
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Retry
from inturn.store.store import Store

if TYPE_CHECKING:
    from inturn.worker.runs import Run

CALL_CHARS_MAX = 8 * 1024 * 1024
"""What one call says, as far as jobs can be told apart: each holds its leases locked for as long as
it takes, and is in the memory several times over while it is sent."""

CHARS_UNSETTLED_MAX = 32 * 1024 * 1024
"""While results and errors of so much are not settled, nothing more is claimed or started."""


class Volume:
    """The characters of results and errors that are not settled, so that they fill no memory."""

    def __init__(self) -> None:
        self.chars, self.chars_max = 0, CHARS_UNSETTLED_MAX
        self._lock = Lock()

    @property
    def is_full(self) -> bool:
        """Whether the store should take some of it before there is more."""
        return self.chars >= self.chars_max

    def add(self, chars: int) -> None:
        """Count more, or less. From any thread."""
        if chars:
            with self._lock:
                self.chars += chars


class Turned(NamedTuple):
    """What came of one call to the store. ``claims``: None if nothing could be claimed."""

    claims: list[Claim] | None
    settled: list[tuple[Run, Settlement]]
    refused: list[tuple[Run, Settlement]]


class SettleBuffer:
    """Settlements that the store has not taken yet, in the order of the jobs' ends.

    The store takes all of a call or nothing: if one lease in it is gone, those it names are settled
    one by one, and what is refused then is dropped, for another worker owns those jobs.
    """

    def __init__(self, store: Store, worker: str, volume: Volume) -> None:
        self._store, self._worker, self._volume = store, worker, volume
        self._pending: list[tuple[Run, Settlement]] = []
        self._doubted: set[int] = set()  # tokens of leases that may be gone

    def __bool__(self) -> bool:
        """Whether there is something to settle."""
        return bool(self._pending)

    def add(self, run: Run, settlement: Settlement) -> None:
        """Have the next calls settle."""
        outcomes = settlement.outcomes
        if not self._volume.chars or len(outcomes) == 1:
            self._pending.append((run, settlement))
            return
        first = chars = 0
        for at, outcome in enumerate(outcomes):
            size = chars_of(outcome)
            if chars + size > CALL_CHARS_MAX and at > first:
                self._pending.append((run, Settlement(settlement.lease, outcomes[first:at])))
                first, chars = at, 0
            chars += size
        self._pending.append((run, Settlement(settlement.lease, outcomes[first:])))

    async def turn(self, wish: Wish | None) -> Turned:
        """Settle as much as one call carries, and claim what is wished for."""
        said = self._next_call()
        settlements = [settlement for _, settlement in said]
        claims: list[Claim] = []
        try:
            if wish is None:
                await self._store.settle(settlements, worker=self._worker)
            else:
                options: dict[str, Any] = {
                    "jobs_max": wish.jobs_max,
                    "worker": self._worker,
                    "lease_seconds": wish.lease_seconds,
                    "kinds": wish.kinds,
                    "suspects_max": wish.suspects_max,
                }
                if said:
                    claims = await self._store.turn(settlements, wish.queue, **options)
                else:
                    claims = await self._store.claim(wish.queue, **options)
        except LeaseLost as error:
            if len(said) > 1:
                asked = {settlement.lease.token for settlement in settlements}
                self._doubted |= asked.intersection(error.tokens) or asked
                return Turned(None, [], [])
            self._drop(said)
            return Turned(None, [], said)
        self._drop(said)
        return Turned(claims, said, [])

    def _next_call(self) -> list[tuple[Run, Settlement]]:
        """Return what the next call settles: of what is in doubt, one lease alone."""
        if self._doubted:
            for one in self._pending:
                if one[1].lease.token in self._doubted:
                    return [one]
            self._doubted.clear()
        if not self._volume.chars:
            return self._pending[:]
        chars = 0
        for count, (_, settlement) in enumerate(self._pending):
            chars += chars_in(settlement)
            if chars > CALL_CHARS_MAX and count:
                return self._pending[:count]
        return self._pending[:]

    def _drop(self, said: list[tuple[Run, Settlement]]) -> None:
        """Forget what the store has taken, or never will."""
        if len(said) == len(self._pending):
            self._pending = []
        else:
            gone = set(map(id, said))
            self._pending = [one for one in self._pending if id(one) not in gone]
        if self._volume.chars:
            self._volume.add(-sum(chars_in(settlement) for _, settlement in said))


def chars_of(outcome: Outcome) -> int:
    """Return how many characters of result or error an outcome has."""
    verdict = outcome.verdict
    if type(verdict) is Done:
        return 0 if verdict.result is None else len(verdict.result)
    if type(verdict) is Retry or type(verdict) is Bury:
        return len(verdict.error) + len(verdict.traceback or "")
    return 0


def chars_in(settlement: Settlement) -> int:
    """Return how many characters of results and errors a settlement has."""
    return sum(map(chars_of, settlement.outcomes))
