"""What a worker has to tell its store: kept until the store has taken it, in calls that fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from inturn.model.errors import LeaseLost, OutOfBounds, StoreError
from inturn.model.lease import Claim, Lease
from inturn.policy.settlement import Settlement, gives_back_rest
from inturn.store.store import Store
from inturn.worker.volume import Volume, chars_in

CALL_CHARS_MAX = 8 * 1024 * 1024
"""What is said with one call, as far as jobs can be told apart: each holds its leases locked for as
long as it takes, and is in the memory several times over while it is sent."""

LONG_SECONDS = 0.05
"""After a call that took so long its leases are asked for. On PostgreSQL they were locked by it, so
a heartbeat that came meanwhile has prolonged nothing, and with one such call after the other none
might: a lease runs out, and a sweep that comes between two calls takes it back."""


class Telling:
    """Settlements that the store did not take yet, in the order of the jobs' ends.

    ``told``: called with each that it took. ``refused``: called with those that it would not have.
    ``doubted``: awaited with tokens whose leases may be lost, or may soon run out. ``rest``: says
    how to give back what is left of a lane. ``volume``: counts what is not told.
    """

    def __init__(
        self,
        store: Store,
        worker: str,
        *,
        told: Callable[[Settlement], None],
        refused: Callable[[Sequence[Settlement]], None],
        doubted: Callable[[Iterable[int]], Awaitable[None]],
        rest: Callable[[Lease], Settlement | None],
        volume: Volume,
    ) -> None:
        self._store, self._worker = store, worker
        self._told, self._refused, self._doubted, self._rest = told, refused, doubted, rest
        self._volume = volume
        self._unsaid: list[Settlement] = []
        self._chars = 0  # in those

    def __bool__(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._unsaid)

    def add(self, settlements: Iterable[Settlement]) -> None:
        """Have settlements told with the next calls."""
        settlements = list(settlements)
        self._unsaid += settlements
        self._count(sum(map(chars_in, settlements)))

    async def settle(self) -> None:
        """Tell the store."""

        async def call(said: Sequence[Settlement]) -> list[Claim]:
            await self._store.settle(said, worker=self._worker)
            return []

        await self._tell(call)

    async def turn(self, queue: str, **options: Any) -> list[Claim] | None:
        """Tell the store and claim what comes next; None if nothing could be claimed."""
        if not self._unsaid:
            return await self._store.claim(queue, worker=self._worker, **options)

        async def call(said: Sequence[Settlement]) -> list[Claim]:
            return await self._store.turn(said, queue, worker=self._worker, **options)

        return await self._tell(call)

    async def _tell(
        self, call: Callable[[Sequence[Settlement]], Awaitable[list[Claim]]]
    ) -> list[Claim] | None:
        said = self._fitting()
        while True:
            began = monotonic()
            try:
                claims = await call(said)
                break
            except LeaseLost as error:
                await self._sort_out(error.tokens)
                return None
            except OutOfBounds:  # more than one call may carry
                halves = _halved(said)
                if halves is None:
                    raise
                first, second = halves
                self._unsaid = [*first, *second, *self._unsaid[len(said) :]]
                said = first
        self._unsaid = self._unsaid[len(said) :]
        if self._chars:
            self._count(-sum(map(chars_in, said)))
        for one in said:
            self._told(one)
        if monotonic() - began >= LONG_SECONDS:
            with suppress(StoreError):  # what was claimed is claimed; the heartbeat asks again
                await self._doubted({one.lease.token for one in said})
        return claims

    async def _sort_out(self, tokens: Iterable[int]) -> None:
        """Tell what stands under doubtful leases one by one, and drop what the store refuses.

        It may be someone else's to say by now. Or the store had taken it and went away before it
        could answer: then what else is under that lease is still ours. Or a job that failed was
        done before, by its own transaction, whose answer was lost: then those behind it are given
        back.
        """
        doubtful = set(tokens)
        asked = [one for one in self._unsaid if one.lease.token in doubtful]
        self._unsaid = [one for one in self._unsaid if one.lease.token not in doubtful]
        refused: list[Settlement] = []
        try:
            while asked:
                try:
                    await self._store.settle([asked[0]], worker=self._worker)
                except LeaseLost:
                    done = await self._found_done(asked[0])
                    if done is None:
                        refused.append(asked.pop(0))
                    else:
                        self._count(-chars_in(asked.pop(0)))
                        self._told(done)
                except OutOfBounds:  # what one lease holds may be more than one call may carry
                    if (halves := _halved(asked[:1])) is None:
                        raise
                    asked[:1] = [*halves[0], *halves[1]]
                else:
                    self._count(-chars_in(asked[0]))
                    self._told(asked.pop(0))
        finally:
            self._unsaid = [*asked, *self._unsaid]
            self._count(-sum(map(chars_in, refused)))
            self._refused(refused)
        await self._doubted(doubtful)

    async def _found_done(self, refused: Settlement) -> Settlement | None:
        """Give back what stands in a lane behind jobs of which the store does not hear that they
        are not done. If it takes that, they are, and this returns as much; else None.
        """
        rest = None
        if gives_back_rest(refused.lease, refused.outcomes[-1]):
            rest = self._rest(refused.lease)
        if rest is None:
            return None
        try:
            await self._store.settle([rest], worker=self._worker)
        except LeaseLost:
            return None
        self._told(rest)
        jobs = [outcome.job for outcome in refused.outcomes]
        return Settlement.done(Claim(refused.lease, jobs))

    def _fitting(self) -> list[Settlement]:
        """Return what the next call is to say: the first that are not too much for it."""
        while self._chars > CALL_CHARS_MAX:
            chars = 0
            for count, one in enumerate(self._unsaid):
                chars += chars_in(one)
                if chars > CALL_CHARS_MAX and count:
                    return self._unsaid[:count]
                if chars > CALL_CHARS_MAX:
                    break
            if (halves := _halved(self._unsaid[:1])) is None:
                return self._unsaid[:1]
            self._unsaid[:1] = [*halves[0], *halves[1]]
        return self._unsaid

    def _count(self, chars: int) -> None:
        self._chars += chars
        self._volume.add(chars)


def _halved(said: Sequence[Settlement]) -> tuple[list[Settlement], list[Settlement]] | None:
    """Return the first and the second half of what is to be said; None if it is one job."""
    if len(said) > 1:
        middle = len(said) // 2
        return list(said[:middle]), list(said[middle:])
    [only] = said
    middle = len(only.outcomes) // 2
    if not middle:
        return None
    lease, outcomes = only.lease, only.outcomes
    return [Settlement(lease, outcomes[:middle])], [Settlement(lease, outcomes[middle:])]
