"""What a worker asks of an executor: many jobs at once, free slots, completions together."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from inturn.executor import Completions
from inturn.model.errors import BadInput
from tests.executor.support import SECONDS_MAX, Failing, Running, jump, waiting_thread_job


async def fine() -> str:
    return "fine"


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_completions_come_together_each_once_with_its_outcome(kind: str) -> None:
    completions = Completions()
    batches = []
    async with Running(queue_size=2_000, max_attempts=1, error_handler=lambda f: None) as executor:

        def on_thread(number: int) -> int:
            return number if number % 10 else 1 // 0

        async def on_loop(number: int) -> int:
            await asyncio.sleep(0)
            return on_thread(number)

        def job(number: int) -> object:
            if kind == "loop":

                async def run() -> int:
                    return await on_loop(number)

                return run
            return lambda: on_thread(number)

        tickets = await executor.submit_many(
            [(f"key-{number % 50}", job(number)) for number in range(1_000)],
            completions=completions,
        )
        taken = 0
        while taken < 1_000:
            batch = await asyncio.wait_for(completions.take(), SECONDS_MAX)
            assert batch
            batches.append(batch)
            taken += len(batch)
    everything = [ticket for batch in batches for ticket in batch]
    assert {id(ticket) for ticket in everything} == {id(ticket) for ticket in tickets}
    assert len(everything) == 1_000
    assert all(ticket.ended for ticket in everything)
    assert sum(isinstance(ticket.error, ZeroDivisionError) for ticket in everything) == 100
    assert len(batches) < 500  # together, not one by one
    assert len(completions) == 0


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (5, r"^jobs must be a list, or another collection, not 5\.$"),
        ("jobs", "^jobs must be a list"),
        ([5], r"^submit_many takes pairs of a key and a job, not 5\.$"),
        ([("one", fine), fine], r"^submit_many takes pairs .* not <function fine"),
        ([("one", fine, 3)], "^submit_many takes pairs"),
        ({"customer-7": fine}, "^submit_many takes pairs .* not 'customer-7'"),
    ],
    ids=["a number", "text", "numbers", "no key", "three", "a dict"],
)
async def test_what_is_no_pairs_is_refused_and_nothing_is_accepted(jobs: Any, said: str) -> None:
    async with Running() as executor:
        with pytest.raises(BadInput, match=said):
            await executor.submit_many(jobs)
        assert executor.keys_busy == 0


async def test_what_a_generator_of_jobs_raises_is_its_own() -> None:
    def jobs() -> Any:
        yield "one", fine
        raise TypeError("mine")

    async with Running() as executor:
        with pytest.raises(TypeError, match=r"^mine$"):
            await executor.submit_many(jobs())
        assert executor.keys_busy == 0


async def test_completions_include_what_was_cancelled_or_halted() -> None:
    completions = Completions()
    async with Running(slots=1, max_attempts=1, on_dead="halt") as executor:
        await executor.submit_many(
            [("one", Failing(1)), ("one", fine), ("two", fine)], completions=completions
        )
        [cancelled] = await executor.submit_many([("three", fine)], completions=completions)
        cancelled.cancel()
    kinds = sorted(type(ticket.error).__name__ for ticket in completions.take_now())
    assert kinds == ["JobCancelled", "KeyHalted", "NoneType", "ValueError"]


async def test_free_slots_and_busy_keys_are_known() -> None:
    gate = threading.Event()
    async with Running(slots=3) as executor:
        assert (executor.free_slots, executor.keys_busy) == (3, 0)
        await executor.submit("one", waiting_thread_job(gate))
        await executor.submit("one", fine)
        await executor.submit("two", waiting_thread_job(gate))
        assert (executor.free_slots, executor.keys_busy) == (1, 2)
        gate.set()
        await executor.barrier("one")
        await executor.barrier("two")
        assert (executor.free_slots, executor.keys_busy) == (3, 0)


def test_a_slot_on_the_loop_goes_from_job_to_job_and_waits_for_no_timer() -> None:
    async def main() -> tuple[int, float]:
        ran = 0

        async def count() -> None:
            nonlocal ran
            ran += 1

        async with Running(shards=1, queue_size=5_000) as executor:
            began = asyncio.get_running_loop().time()
            for _ in range(5_000):
                await executor.submit("one", count)
            await executor.barrier("one")
            return ran, asyncio.get_running_loop().time() - began

    assert jump(main) == (5_000, 0.0)


async def test_a_slot_on_threads_goes_from_job_to_job_past_the_loop() -> None:
    gate, all_ran = threading.Event(), threading.Event()
    threads: list[int] = []

    def count() -> None:
        threads.append(threading.get_ident())
        if len(threads) == 5_000:
            all_ran.set()

    async with Running(shards=1, queue_size=5_001) as executor:
        await executor.submit("one", waiting_thread_job(gate))
        for _ in range(5_000):
            await executor.submit("one", count)
        gate.set()
        assert all_ran.wait(SECONDS_MAX)  # the loop stands still meanwhile
        assert len(set(threads)) == 1
