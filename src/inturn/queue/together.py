"""Calls made one by one and carried out together, as many as have come meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

BATCH_MAX = 1_000


class Together(Generic[Item, Answer]):
    """Takes items one by one and handles all that are there at once. For one loop.

    Nobody waits for others to come: a lone item is a batch of one. If a batch of several fails,
    each of them is handled by itself, so that one which is to blame is alone in it.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._working: asyncio.Task[None] | None = None

    async def handle_all(self, items: Sequence[Item]) -> Sequence[Answer]:
        """Handle a batch: an answer for each item, in their order."""
        raise NotImplementedError

    async def handle(self, item: Item) -> Answer:
        """Handle an item, with others."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, answer))
        if self._working is None:
            self._working = loop.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        try:
            await asyncio.sleep(0)  # let those come that the same turn of the loop has started
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                await self._handle(batch)
        finally:
            self._working = None
            for _, answer in self._waiting:
                answer.cancel()

    async def _handle(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self.handle_all([item for item, _ in batch])
        except Exception as error:
            if len(batch) > 1:
                for one in batch:
                    await self._handle([one])
                return
            [(_, answer)] = batch
            if not answer.done():
                answer.set_exception(error)
            return
        except BaseException:
            for _, answer in batch:
                answer.cancel()
            raise
        for (_, answer), found in zip(batch, answers, strict=True):
            if not answer.done():
                answer.set_result(found)
