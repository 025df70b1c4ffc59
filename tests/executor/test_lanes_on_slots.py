"""Slots run whatever is a lane: in turn, at most so many at once, on the loop and on threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any, ClassVar

import pytest

from inturn.executor.slots import ON_LOOP, ON_THREAD, Slots


class Line:
    """A lane of functions, which notes how each ended."""

    keeps_slot: ClassVar[bool] = False

    def __init__(self, *jobs: Callable[[], Any]) -> None:
        self.jobs = deque(jobs)
        self.ends: list[Any] = []
        self.left = len(jobs)
        self.is_done = threading.Event()
        self.runs_side_by_side = False

    def place(self) -> int | None:
        if not self.jobs or self.runs_side_by_side:
            return None
        return ON_LOOP if asyncio.iscoroutinefunction(self.jobs[0]) else ON_THREAD

    def next(self, place: int) -> Any | None:
        return self.jobs.popleft() if self.jobs else None

    def context(self, job: Any) -> Context:
        return Context()

    def begin(self, job: Any) -> Any:
        return job()

    def ended(self, job: Any, value: Any, error: BaseException | None) -> int | None:
        self.ends.append(value if error is None else error)
        self.left -= 1
        if not self.left:
            self.is_done.set()
        return self.place()

    async def done(self) -> list[Any]:
        assert await asyncio.to_thread(self.is_done.wait, 10.0)
        return self.ends


def added(slots: Slots, *jobs: Callable[[], Any]) -> Line:
    line = Line(*jobs)
    place = line.place()
    assert place is not None
    slots.add(line, place)
    return line


@pytest.mark.parametrize("count", [1, 3])
async def test_no_more_run_at_once_than_there_are_slots_here_and_on_threads(count: int) -> None:
    slots, lock = Slots(count), threading.Lock()
    running, most = 0, 0

    def change(by: int) -> None:
        nonlocal running, most
        with lock:
            running += by
            most = max(most, running)

    async def on_loop() -> None:
        change(1)
        await asyncio.sleep(0.002)
        change(-1)

    def on_thread() -> None:
        change(1)
        time.sleep(0.002)
        change(-1)

    lines = [added(slots, *([on_loop, on_thread] * 3)) for _ in range(8)]
    for line in lines:
        assert await line.done() == [None] * 6
    assert most == count
    await asyncio.sleep(0.01)
    assert (slots.running, slots.waiting) == (0, 0)
    await slots.end()


async def test_while_both_wait_the_loop_and_the_threads_have_slots_in_turn() -> None:
    slots, seen = Slots(1), []
    is_held, all_wait = threading.Event(), threading.Event()

    async def on_loop() -> None:
        seen.append("loop")

    def on_thread() -> None:
        seen.append("thread")

    def hold() -> None:
        is_held.set()
        all_wait.wait()

    lines = [added(slots, hold)]
    assert await asyncio.to_thread(is_held.wait, 10)
    lines += [added(slots, on_loop) for _ in range(20)]
    lines += [added(slots, on_thread) for _ in range(20)]
    all_wait.set()
    for line in lines:
        await line.done()
    assert {tuple(seen[at : at + 2]) for at in range(0, 40, 2)} in (
        {("loop", "thread")},
        {("thread", "loop")},
    )
    await slots.end()


async def test_a_job_that_is_cancelled_ends_and_the_next_is_not_struck() -> None:
    slots, begun = Slots(1), asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)

    async def quick() -> str:
        await asyncio.sleep(0)
        return "done"

    line, other = added(slots, waits, quick), added(slots, quick)
    await begun.wait()
    [slot] = slots.of(line)
    slot.cancel()
    first, second = await line.done()
    assert isinstance(first, asyncio.CancelledError)
    assert (second, await other.done()) == ("done", ["done"])
    await slots.end()


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_is_added_from_wherever_all_of_it_runs(seed: int) -> None:
    random = Random(seed)
    slots = Slots(random.choice([1, 2, 3, 8]))

    async def on_loop() -> None:
        if random.random() < 0.3:
            await asyncio.sleep(random.random() * 0.002)

    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    def on_thread() -> None:
        if random.random() < 0.3:
            time.sleep(random.random() * 0.002)

    lines: list[Line] = []

    def add_many() -> None:
        for _ in range(100):
            jobs = random.choices([on_loop, on_thread, cancels], [9, 9, 1], k=random.randint(1, 8))
            lines.append(added(slots, *jobs))
            if random.random() < 0.1:
                time.sleep(0.001)

    threads = [threading.Thread(target=add_many) for _ in range(3)]
    for thread in threads:
        thread.start()
    add_many()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    for line in lines:
        await line.done()
    await asyncio.sleep(0.01)
    assert (slots.running, slots.waiting) == (0, 0)
    await slots.end()
