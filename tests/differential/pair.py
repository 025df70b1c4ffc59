"""A SQLite store and a PostgreSQL store that are told the same, and must answer the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from inturn.model.clock import ManualClock
from inturn.model.errors import InturnError, StoreError
from inturn.store.address import connect
from inturn.store.protocol import Store
from tests.simulation.stores import EMPTY_ALL_TABLES, Hands

Verb = Callable[[Store, int], Awaitable[Any]]
"""What to do with a store; the number says which of the two it is."""


class Refusal:
    """A verb that was refused: only the sort of error must agree."""

    def __init__(self, error: InturnError) -> None:
        self.error = error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and type(other.error) is type(self.error)

    def __hash__(self) -> int:
        return hash(type(self.error))

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}({self.error})"


class Pair:
    """Both stores on one clock. PostgreSQL keeps its connection and is emptied between examples."""

    def __init__(self, postgres_url: str) -> None:
        self._runner = asyncio.Runner()
        self._hands = Hands()
        self._sqlite: Store | None = None
        self._postgres = connect(postgres_url, clock=self._hands)
        self._runner.run(self._open_postgres())

    @property
    def clock(self) -> ManualClock:
        return self._hands.clock

    def begin(self) -> None:
        """Start afresh: both empty, the clock at its start."""
        self._hands.clock = ManualClock()
        self._runner.run(self._empty())

    def both(self, verb: Verb) -> tuple[Any, Any]:
        """Let both do the same; return the answers, SQLite's first. A refusal is an answer."""
        return self._runner.run(self._both(verb))

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _both(self, verb: Verb) -> tuple[Any, Any]:
        assert self._sqlite is not None
        answers = []
        for number, store in enumerate((self._sqlite, self._postgres)):
            try:
                answers.append(await verb(store, number))
            except StoreError:
                raise
            except InturnError as error:
                answers.append(Refusal(error))
        return answers[0], answers[1]

    async def _open_postgres(self) -> None:
        await self._postgres.migrate()
        await self._postgres.open()

    async def _empty(self) -> None:
        if self._sqlite is not None:
            await self._sqlite.close()
        self._sqlite = connect("sqlite:///:memory:", clock=self._hands)
        await self._sqlite.open()
        async with self._postgres.transaction() as transaction:
            await transaction.execute(EMPTY_ALL_TABLES)

    async def _close(self) -> None:
        for store in (self._sqlite, self._postgres):
            if store is not None:
                await store.close()
