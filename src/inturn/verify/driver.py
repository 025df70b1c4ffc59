"""The driver: looks at the run's queues, opens gates, and clears what keeps the end away."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic

from inturn.model.errors import StoreError
from inturn.store.store import Store
from inturn.verify import history
from inturn.verify.plan import Settings

LOOK_SECONDS = 0.2
ANSWER_SECONDS_MAX = 5.0


class Driver:
    """What the run itself asks of the store, while processes come and go."""

    def __init__(self, store: Store, settings: Settings, written: history.History) -> None:
        self._store, self._settings, self._history = store, settings, written
        self._gate = 0
        self._gate_asked_at: float | None = None  # the first call without an answer
        self._look_at = 0.0
        self._unfinished = 0
        self._sure = 0
        self.is_done = False

    async def look(self) -> int:
        """Return how much is unfinished, as of a moment ago."""
        if monotonic() < self._look_at:
            return self._unfinished
        self._look_at = monotonic() + LOOK_SECONDS
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                is_exhausted = await self._advance()
                rows = [
                    row
                    for row in await self._store.queues()
                    if row.name in (self._settings.queue, self._settings.rounds)
                ]
                active = sum(r.waiting + r.running + r.scheduled + r.retrying for r in rows)
                blocked = sum(row.blocked for row in rows)
                self._unfinished = active + blocked
                if blocked and not active:
                    await self._drop_dead_letters()
                self._sure = self._sure + 1 if is_exhausted and not self._unfinished else 0
                self.is_done = self._sure > 1
        return self._unfinished

    async def _advance(self) -> bool:
        """Ask the gate to advance; say whether no round is left."""
        if self._gate_asked_at is None:
            self._gate_asked_at = monotonic()
        gate = await self._store.advance_gate(self._settings.rounds)
        if gate.round > self._gate:
            self._history.write(
                history.GateMoved(
                    asked_at=self._gate_asked_at,
                    queue=self._settings.rounds,
                    before=self._gate,
                    round=gate.round,
                )
            )
            self._gate = gate.round
        self._gate_asked_at = None
        return gate.exhausted

    async def _drop_dead_letters(self) -> None:
        """Drop what others wait for in vain, so that they end as well."""
        for queue in (self._settings.queue, self._settings.rounds):
            page = await self._store.dead_letters(queue=queue, rows_max=1_000)
            for letter in page.rows:
                if letter.job.id in await self._store.dead_drop([letter.job.id], by="verify"):
                    self._history.write(
                        history.Dropped(
                            job=letter.job.id, attempts=letter.attempts, reason=letter.reason
                        )
                    )

    async def kill_backends(self, wanted: int) -> int:
        """End connections of the run's own processes to PostgreSQL; return how many."""
        from inturn.store.postgres.faults import told  # there is asyncpg, where this is called

        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            with told():
                async with self._store.transaction() as transaction:
                    rows = await transaction.execute(
                        "select pg_terminate_backend(pid) from (select pid from pg_stat_activity "
                        f"where application_name = 'inturn-verify-{self._settings.run}' "
                        f"order by random() limit {wanted}) own"
                    )
        return len(rows)
