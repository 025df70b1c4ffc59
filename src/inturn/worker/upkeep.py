"""Upkeep: every worker that lives long prunes its store from time to time, so that none grows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from inturn.model.errors import StoreError
from inturn.store.store import Store

PRUNE_SECONDS = 300.0


class Upkeep:
    """Prunes for ever, first after a minute or two; no two workers at the same moment.

    ``failed`` hears why a prune was not finished. The next one is.
    """

    def __init__(
        self,
        store: Store,
        failed: Callable[[StoreError], None],
        *,
        prune_seconds: float = PRUNE_SECONDS,
        random: Random | None = None,
    ) -> None:
        self._store, self._failed = store, failed
        self._prune_seconds = prune_seconds
        self._random = random or Random()

    async def run(self) -> None:
        """Prune until cancelled."""
        await self._pause(0.2, 0.4)
        while True:
            try:
                await self._store.prune()
            except StoreError as error:
                self._failed(error)
            await self._pause(0.75, 1.25)

    async def _pause(self, shortest: float, longest: float) -> None:
        await asyncio.sleep(self._prune_seconds * self._random.uniform(shortest, longest))
