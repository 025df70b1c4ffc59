"""A loop that ends without a stop: whoever is late, each job runs or is reported, once.

Promise E3 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
from collections.abc import Iterator
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


@pytest.mark.parametrize("seed", range(2))
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
