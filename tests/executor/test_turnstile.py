"""Who waits for room and could start at once: found in few steps, and the same as by going through
everyone in line."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, ClassVar

import pytest

import inturn
from inturn.executor.lanes import Lanes
from inturn.executor.room import Offer
from inturn.model.errors import InturnError
from tests.executor.support import Failing, Running, Steps, jump


async def refuse() -> None:
    raise ConnectionError


def one_key_each(executor: inturn.Executor, number: int) -> Any:
    return executor.submit(f"key-{number}", refuse)


def two_keys_each(executor: inturn.Executor, number: int) -> Any:
    return executor.submit_many([(f"key-{number}", refuse), (f"other-{number}", refuse)])


def keys_that_have_jobs(executor: inturn.Executor, number: int) -> Any:
    return executor.submit(f"key-{number // 3}", refuse)


@pytest.mark.parametrize("submit", [one_key_each, two_keys_each, keys_that_have_jobs])
@pytest.mark.parametrize("patience", [0.1, 3600])
@pytest.mark.parametrize("on_dead", ["skip", "halt"])
def test_four_times_as_many_who_wait_while_jobs_fail_take_four_times_the_steps(
    submit: Callable[[inturn.Executor, int], Any], patience: float, on_dead: str
) -> None:
    def steps(submitters: int) -> float:
        async def main() -> int:
            async with Running(
                shards=2,
                slots=8,
                queue_size=20,
                enqueue_timeout=patience,
                max_attempts=2,
                base_backoff=1,
                on_dead=on_dead,
                error_handler=lambda failure: None,
            ) as executor:
                waiting = [submit(executor, number) for number in range(submitters)]
                with Steps() as steps:
                    await asyncio.gather(*waiting, return_exceptions=True)
                return steps.count

        return jump(main) / submitters

    few, many = steps(150), steps(600)
    assert many < few * 2, f"{few:.0f} steps for each of 150, {many:.0f} for each of 600"


def test_who_waits_in_many_shards_for_room_in_all_costs_no_more_than_in_few() -> None:
    def steps(shards: int) -> int:
        async def main() -> int:
            async with Running(
                shards=shards, slots=4, queue_size=16, depth_max=16, enqueue_timeout=3600
            ) as executor:
                jobs = [(f"key-{number}", partial(asyncio.sleep, 0)) for number in range(600)]
                with Steps() as steps:
                    await asyncio.gather(*(executor.submit(key, job) for key, job in jobs))
                return steps.count

        return jump(main)

    few, many = steps(4), steps(400)
    assert many < few * 2, f"{few} steps in 4 shards, {many} in 400"


class Compared(Lanes):
    """Goes through everyone in line as well, and wants to find the same."""

    __slots__ = ()
    looks: ClassVar[Counter[tuple[bool, bool]]] = Counter()  # whether it was the same, and someone

    def _startable(self) -> Offer | None:
        found = super()._startable()
        turns = self.room.turnstile._turns
        firsts = [self.room.by_key[key][0] for key in sorted(turns, key=turns.__getitem__)]
        expected = next((offer for offer in firsts if self._starts(offer)), None)
        is_same = found is expected and turns.keys() == self.room.by_key.keys()
        self.looks[is_same, found is not None] += 1
        return expected


@pytest.mark.parametrize("seed", range(20))
def test_who_may_pass_is_whom_one_finds_by_going_through_the_line(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = Random(seed)
    looks: Counter[tuple[bool, bool]] = Counter()
    monkeypatch.setattr("inturn.executor.turns.Lanes", Compared)
    monkeypatch.setattr(Compared, "looks", looks)

    async def submit(executor: inturn.Executor, number: int) -> None:
        await asyncio.sleep(chance.uniform(0, 20))
        jobs: list[tuple[str, Any]] = [
            (
                f"key-{chance.randrange(12)}",
                chance.choice(
                    [Failing(1), Failing(9), partial(asyncio.sleep, chance.random() * 5)]
                ),
            )
            for _ in range(chance.choice([1, 1, 1, 2, 3]))
        ]
        try:
            tickets = await executor.submit_many(jobs, timeout=chance.uniform(0.1, 10))
        except InturnError:
            return
        if chance.random() < 0.3:
            await asyncio.sleep(chance.random() * 3)
            chance.choice(tickets).cancel()

    async def main() -> None:
        async with Running(
            shards=chance.choice([1, 3]),
            slots=chance.choice([2, 4, 8]),
            queue_size=chance.choice([2, 3, 6]),
            max_attempts=3,
            base_backoff=2,
            random=chance,
            on_dead=chance.choice(["skip", "halt"]),
            error_handler=lambda failure: None,
        ) as executor:
            waiting = [asyncio.create_task(submit(executor, number)) for number in range(300)]
            for one in chance.sample(waiting, 30):
                asyncio.get_running_loop().call_later(chance.uniform(0, 25), one.cancel)
            halted = asyncio.create_task(resume(executor))
            await asyncio.wait(waiting)
            halted.cancel()
            turnstile = executor._lanes.room.turnstile
            kept = turnstile._turns, turnstile._files, turnstile.held, turnstile._filed
            assert kept == ({}, {}, {}, 0)

    async def resume(executor: inturn.Executor) -> None:
        while True:
            await asyncio.sleep(1)
            for key in executor.halted():
                executor.resume(key)

    jump(main)
    assert not looks[False, False] + looks[False, True]
    assert looks[True, False]
