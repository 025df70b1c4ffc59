"""Room in a store's queues: who waits for it, and behind whom."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from inturn.model.errors import EnqueueTimeout, ShardFull
from inturn.model.job import NewJob
from inturn.worker.store_room import StoreRoom
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import SECONDS_MAX


class Depths:
    """What a store says of its queues, and how often it was asked."""

    def __init__(self, **depths: int) -> None:
        self.depths: Mapping[str, int] = depths
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(self) -> Mapping[str, int]:
        self.asked += 1
        await self.answers.wait()
        return self.depths


def jobs_of(*queues: str) -> list[NewJob]:
    return [NewJob(kind="any", queue=queue) for queue in queues]


async def enter(room: StoreRoom, *queues: str, timeout: float = 0.0) -> None:
    ends_at = asyncio.get_running_loop().time() + timeout
    await room.enter(jobs_of(*queues), timeout, ends_at=ends_at)


async def waits(room: StoreRoom, *queues: str) -> asyncio.Task[None]:
    """Have someone wait for room, and return when it stands in line."""
    waiting = asyncio.create_task(enter(room, *queues, timeout=SECONDS_MAX))
    await until(lambda: len(room._lines.get(queues[0], ())) > 0)
    return waiting


async def test_who_waits_for_room_in_a_queue_keeps_nobody_from_another(shop: Shop) -> None:
    async with running(shop, slots=4, queue_size=1) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: executor.keys_busy == 1)
        await executor.submit("a", shop.wait.call(), timeout=SECONDS_MAX)
        waiting = asyncio.create_task(executor.submit("a", shop.wait.call(), timeout=SECONDS_MAX))
        room = executor._room
        assert room is not None
        await until(lambda: bool(room._lines))
        call = shop.write_slowly.call("b", 1)  # of another queue
        assert await asyncio.wait_for(executor.run("b", call), SECONDS_MAX) == 1
        assert not waiting.done()
        shop.gate.set()
        await waiting


async def test_in_each_queue_who_came_first_is_first() -> None:
    depths = Depths(a=1, b=0)
    room = StoreRoom(depths, capacity=1)
    first = await waits(room, "a")
    both = asyncio.create_task(enter(room, "b", "a", timeout=SECONDS_MAX))
    await until(lambda: "b" in room._lines)
    with pytest.raises(ShardFull, match=r"queue 'b'.* others came first"):
        await enter(room, "b")
    with pytest.raises(EnqueueTimeout, match="queue 'a'"):
        await enter(room, "a", timeout=0.01)
    depths.depths = {}
    await first
    room.entered(jobs_of("a"), accepted=False)
    await both
    assert not room._lines


async def test_who_gives_up_leaves_every_line() -> None:
    depths = Depths(a=1)
    room = StoreRoom(depths, capacity=1)
    waiting = await waits(room, "a", "b")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not room._lines
    await enter(room, "b")


async def test_who_is_refused_behind_others_is_told_in_which_queue() -> None:
    depths = Depths(a=1)
    room = StoreRoom(depths, capacity=2)
    pair = await waits(room, "a", "a")
    with pytest.raises(ShardFull, match=r"queue 'a'.* 1 waiting jobs of 2 .* others came first"):
        await enter(room, "b", "a")
    depths.depths = {}
    await pair


async def test_a_store_is_not_asked_by_each_queue_that_is_full() -> None:
    depths = Depths(**{f"q{number}": 1 for number in range(20)})
    room = StoreRoom(depths, capacity=1)
    depths.answers.clear()
    entering = asyncio.gather(
        *(enter(room, f"q{number}") for number in range(20)), return_exceptions=True
    )
    await until(lambda: depths.asked == 1)
    depths.answers.set()
    assert all(isinstance(error, ShardFull) for error in await entering)
    assert depths.asked == 2, "one look for who came first, one for all who came during it"
