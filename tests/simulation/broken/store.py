"""A store that breaks nothing yet, for those that break one promise each to build on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.store.store import Store


class Broken:
    """A store that keeps its promises, all but one. This one keeps them all."""

    checker = ""  # who must say so
    seed = 0  # the first from which no other checker comes upon it before

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def turn(
        self, settlements: Sequence[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        """What settle or claim spoils is spoilt in a turn, too."""
        await self.settle(settlements, worker=options["worker"])
        claims: list[Claim] = await self.claim(queue, **options)
        return claims

    async def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements behind the store's back; return the rows of the last."""
        rows: list[tuple[Any, ...]] = []
        async with self.store.transaction() as transaction:
            for statement in statements:
                rows = await transaction.execute(statement)
        return rows


class SpoilsClaims(Broken):
    """Runs statements before every claim."""

    statements: tuple[str, ...] = ()

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        await self.sql(*self.statements)
        return await self.store.claim(queue, **options)
