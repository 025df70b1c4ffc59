"""A loop that ends without a stop: whoever is late, each job runs or is reported, once."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import inturn
from inturn.executor import LocalTicket
from inturn.model.errors import ExecutorClosed, JobCancelled
from tests.executor.support import SECONDS_MAX, Seen


async def fine() -> str:
    return "fine"


@pytest.fixture(autouse=True)
def nothing_is_left_unawaited() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        gc.collect()


def ran_or_was_reported(tickets: list[LocalTicket], seen: Seen) -> bool:
    """Wait until each has ended; whether those that did not run were reported, each once."""
    until = time.monotonic() + SECONDS_MAX / 6
    while not all(ticket.ended for ticket in tickets):
        assert time.monotonic() < until, f"lost: {[one for one in tickets if not one.ended]}"
        time.sleep(0.001)
    failed = [ticket for ticket in tickets if ticket.error is not None]
    assert all(isinstance(ticket.error, JobCancelled) for ticket in failed)
    return sorted(ticket.key for ticket in failed) == sorted(one.key for one in seen.failures)


class LateThreads:
    """Threads that are not scheduled between their look whether the loop ends and its end."""

    def __init__(self, executor: inturn.Executor) -> None:
        self.has_ended = threading.Event()
        self.have_looked = threading.Event()
        self._looks = executor._turns.loop_ends
        executor._turns.loop_ends = self._look

    def _look(self) -> bool:
        found = self._looks()
        if threading.current_thread() is not threading.main_thread() and not found:
            self.have_looked.set()
            assert self.has_ended.wait(SECONDS_MAX)
        return found


def a_def_that_returns_a_coroutine(executor: inturn.Executor) -> list[LocalTicket]:
    return [executor.submit_sync("one", lambda: fine())]


def a_def_with_an_async_def_behind_it(executor: inturn.Executor) -> list[LocalTicket]:
    return [executor.submit_sync("one", time.monotonic), executor.submit_sync("one", fine)]


def a_def_with_both_behind_it(executor: inturn.Executor) -> list[LocalTicket]:
    jobs: list[Any] = [time.monotonic, fine, lambda: fine(), time.monotonic]
    return [executor.submit_sync("one", job) for job in jobs]


@pytest.mark.parametrize(
    "submit",
    [
        a_def_that_returns_a_coroutine,
        a_def_with_an_async_def_behind_it,
        a_def_with_both_behind_it,
    ],
)
def test_what_a_thread_hands_over_as_the_loop_ends_is_reported(
    submit: Callable[[inturn.Executor], list[LocalTicket]],
) -> None:
    """The worst moment: a thread found that the loop goes on, and all of its end comes between."""
    seen = Seen()
    tickets: list[LocalTicket] = []

    async def main() -> LateThreads:
        executor = inturn.Executor(slots=1, error_handler=seen.handle)
        executor.start()
        threads = LateThreads(executor)
        tickets.extend(submit(executor))
        assert threads.have_looked.wait(SECONDS_MAX)
        return threads

    threads = asyncio.run(main())
    threads.has_ended.set()
    assert ran_or_was_reported(tickets, seen)
    assert seen.failures


@pytest.mark.parametrize("job", [fine, time.monotonic, lambda: fine()])
def test_what_a_thread_submits_as_the_loop_ends_is_reported(job: Any) -> None:
    """The same for who submits: accepted, and all of the loop's end before it is given a slot."""
    seen = Seen()
    tickets: list[LocalTicket] = []
    accepted, has_ended = threading.Event(), threading.Event()

    async def main() -> threading.Thread:
        executor = inturn.Executor(slots=2, error_handler=seen.handle)
        for key in "ab":
            assert await executor.run(key, time.monotonic)
        start = executor._turns.start

        def start_late(lane: Any) -> None:
            accepted.set()
            assert has_ended.wait(SECONDS_MAX)
            start(lane)

        executor._turns.start = start_late  # type: ignore[method-assign]
        thread = threading.Thread(target=lambda: tickets.append(executor.submit_sync("one", job)))
        thread.start()
        assert accepted.wait(SECONDS_MAX)
        return thread

    thread = asyncio.run(main())
    has_ended.set()
    thread.join(SECONDS_MAX)
    assert ran_or_was_reported(tickets, seen)
    assert len(seen.failures) == 1


def test_a_coroutine_that_a_def_returns_after_the_loop_has_ended_is_closed_and_reported() -> None:
    seen = Seen()
    tickets: list[LocalTicket] = []
    begun, gate = threading.Event(), threading.Event()

    def job() -> Coroutine[Any, Any, str]:
        begun.set()
        assert gate.wait(SECONDS_MAX)
        return fine()

    async def main() -> None:
        executor = inturn.Executor(error_handler=seen.handle)
        tickets.append(await executor.submit("one", job))
        assert begun.wait(SECONDS_MAX)

    asyncio.run(main())
    gate.set()
    assert ran_or_was_reported(tickets, seen)
    assert len(seen.failures) == 1


def test_jobs_that_were_given_to_the_loop_and_have_not_begun_when_it_ends_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inturn.executor.loop_slots.HOG_SECONDS_MAX", -1.0)  # a job each turn
    seen = Seen()
    tickets: list[LocalTicket] = []
    ran: list[str] = []

    async def main() -> None:
        executor = inturn.Executor(slots=20, error_handler=seen.handle)
        for number in range(40):
            key = f"key-{number % 30}"

            async def job(key: str = key) -> None:
                ran.append(key)

            tickets.append(await executor.submit(key, job))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert ran_or_was_reported(tickets, seen)
    assert ran
    assert len(ran) < 20
    assert len(seen.failures) == 40 - len(ran)


def test_a_job_that_its_slot_has_in_hand_when_it_is_cancelled_last_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First all but the slot are cancelled, by its job; and the slot between that and the next."""
    monkeypatch.setattr("inturn.executor.loop_slots.HOG_SECONDS_MAX", -1.0)
    seen = Seen()
    tickets: list[LocalTicket] = []

    async def main() -> None:
        executor = inturn.Executor(slots=1, error_handler=seen.handle)

        async def cancel_slots() -> None:
            for slot in executor._on_loop.slots:
                slot.cancel()

        async def cancels_all_others() -> None:
            for other in asyncio.all_tasks() - {asyncio.current_task()}:
                other.cancel()
            cancelling.append(asyncio.create_task(cancel_slots()))

        cancelling: list[asyncio.Task[None]] = []
        tickets.append(await executor.submit("one", cancels_all_others))
        tickets.append(await executor.submit("one", fine))
        await asyncio.sleep(SECONDS_MAX)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert ran_or_was_reported(tickets, seen)
    assert len(seen.failures) == 1


@pytest.mark.parametrize("seed", range(5))
def test_accepted_implies_run_or_reported_however_a_loop_ends_beside_threads(seed: int) -> None:
    for number in range(40):
        seen = Seen()
        tickets: list[LocalTicket] = []

        def late(pause: float = (seed * 40 + number) % 17 * 1e-4) -> Any:
            time.sleep(pause)
            return fine()

        def submit(executor: inturn.Executor, tickets: list[LocalTicket] = tickets) -> None:
            for count in range(200):
                try:
                    job: Any = (fine, time.monotonic, late)[count % 3]
                    tickets.append(executor.submit_sync(f"thread-{count % 7}", job, timeout=0))
                except ExecutorClosed:
                    return
                except inturn.QueueFull:
                    time.sleep(0)

        async def main(seen: Seen = seen, tickets: list[LocalTicket] = tickets) -> threading.Thread:
            executor = inturn.Executor(slots=3, error_handler=seen.handle)
            executor.start()
            for key in "aabb":
                tickets.append(await executor.submit(key, late))
                tickets.append(await executor.submit(key, fine))
            thread = threading.Thread(target=submit, args=(executor,))
            thread.start()
            await asyncio.sleep(0.001)
            return thread

        asyncio.run(main()).join(SECONDS_MAX)
        assert ran_or_was_reported(tickets, seen)
