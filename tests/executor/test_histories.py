"""Random histories: whatever is submitted, fails, is cancelled or waited for, the promises hold.

Promise E1 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

import inturn
from inturn.executor import LocalTicket
from inturn.model.errors import EarlierFailure, JobCancelled, KeyHalted, QueueFull
from tests.executor.support import Seen, jump

KEYS = [f"key-{number}" for number in range(4)]

Step = tuple[Any, ...]
submits = some.tuples(
    some.just("submit"),
    some.sampled_from(KEYS),
    some.integers(0, 4),  # how often it fails
    some.sampled_from([0.0, 0.0, 0.5, 3.0]),  # how long a run takes
)
steps = some.one_of(
    submits,
    submits,
    some.tuples(some.just("cancel"), some.integers(0, 1_000)),
    some.tuples(some.just("barrier"), some.sampled_from(KEYS)),
    some.tuples(some.just("sleep"), some.sampled_from([0.0, 0.1, 1.0, 10.0])),
    some.tuples(some.just("batch"), some.lists(some.sampled_from(KEYS), min_size=1, max_size=4)),
)


@dataclass
class History:
    """What happened to whom."""

    seen: Seen = field(default_factory=Seen)
    tickets: list[LocalTicket] = field(default_factory=list)
    order: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    began: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    running: set[str] = field(default_factory=set)
    overlaps: list[str] = field(default_factory=list)
    runs: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    number: int = 0

    def job(self, key: str, failures: int, seconds: float) -> Any:
        self.number += 1
        number = self.number

        async def run() -> int:
            if key in self.running:
                self.overlaps.append(key)
            self.running.add(key)
            try:
                self.runs[number] += 1
                if self.runs[number] == 1:
                    self.began[key].append(number)
                if seconds:
                    await asyncio.sleep(seconds)
                if self.runs[number] <= failures:
                    raise ValueError(number)
                return number
            finally:
                self.running.discard(key)

        return run


async def play(history: History, executor: inturn.Executor, script: list[Step]) -> None:
    beside: list[asyncio.Task[Any]] = []
    for step in script:
        try:
            match step:
                case ("submit", key, failures, seconds):
                    job = history.job(key, failures, seconds)
                    number = history.number
                    history.tickets.append(await executor.submit(key, job))
                    history.order[key].append(number)
                case ("batch", keys):
                    jobs = [(key, history.job(key, 0, 0.1)) for key in keys]
                    first = history.number - len(keys) + 1
                    history.tickets += await executor.submit_many(jobs)
                    for number, key in enumerate(keys, start=first):
                        history.order[key].append(number)
                case ("cancel", which) if history.tickets:
                    history.tickets[which % len(history.tickets)].cancel()
                case ("barrier", key):
                    beside.append(asyncio.create_task(executor.barrier(key)))
                    await asyncio.sleep(0)
                case ("sleep", seconds):
                    await asyncio.sleep(seconds)
        except (QueueFull, KeyHalted):
            pass
    await executor.stop()
    for error in await asyncio.gather(*beside, return_exceptions=True):
        assert error is None or isinstance(error, EarlierFailure)


@settings(max_examples=300, deadline=None)
@given(
    script=some.lists(steps, max_size=40),
    slots=some.integers(1, 3),
    queue_size=some.integers(1, 6),
    on_dead=some.sampled_from(["skip", "halt"]),
    timeout=some.sampled_from([0.0, 0.2, 5.0]),
)
def test_whatever_happens_the_promises_hold(
    script: list[Step], slots: int, queue_size: int, on_dead: str, timeout: float
) -> None:
    history = History()
    executor = inturn.Executor(
        shards=2,
        slots=slots,
        queue_size=queue_size,
        enqueue_timeout=timeout,
        max_attempts=3,
        on_dead=on_dead,
        error_handler=history.seen.handle,
    )
    jump(lambda: play(history, executor, script))

    # Everything accepted has ended, and each bad end was reported once.
    assert all(ticket.ended for ticket in history.tickets)
    bad = [ticket.error for ticket in history.tickets if ticket.error is not None]
    assert sorted(map(id, bad)) == sorted(id(one.error) for one in history.seen.failures)
    # Jobs of a key run one at a time, in the order they were accepted.
    assert not history.overlaps
    for key, began in history.began.items():
        assert began == [number for number in history.order[key] if number in set(began)]
    # A job that ended well ran; one that was not cancelled or halted used up its attempts.
    for ticket in history.tickets:
        if ticket.error is None:
            assert history.runs[ticket.value] == ticket.attempts
        elif not isinstance(ticket.error, JobCancelled | KeyHalted):
            assert ticket.attempts == 3
    # Nothing is left behind.
    assert executor.depths() == [0, 0]
    assert executor.free_slots == slots
    assert executor.keys_busy == 0
    assert not executor._lanes.admission.lines
