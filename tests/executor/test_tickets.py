"""A ticket: what it shows of itself, and what it lets go of."""

from __future__ import annotations

import asyncio

from tests.executor.support import SECONDS_MAX, Failing, Running, ended_with


async def test_a_ticket_shows_its_key_and_where_its_job_is_and_nothing_else() -> None:
    gate = asyncio.Event()
    async with Running(slots=1, queue_size=1_000, max_attempts=2, base_backoff=0) as executor:
        tickets = [await executor.submit("one", gate.wait) for _ in range(100)]
        failing = await executor.submit("two", Failing(2))
        await asyncio.sleep(0)
        assert repr(tickets[0]) == "<LocalTicket of key 'one', running, attempt 1>"
        assert repr(tickets[1]) == "<LocalTicket of key 'one', waiting>"
        gate.set()
        await ended_with(failing)
        assert repr(failing) == "<LocalTicket of key 'two', ended, attempt 2, with ValueError>"


async def test_a_ticket_lets_go_of_those_who_waited_for_it() -> None:
    gate = asyncio.Event()
    async with Running(max_attempts=1) as executor:

        async def fails() -> None:
            await gate.wait()
            raise ValueError

        for job in (gate.wait, fails):
            ticket = await executor.submit("one", job)
            waiting = [asyncio.create_task(ended_with(ticket)) for _ in range(3)]
            await asyncio.sleep(0)
            assert ticket.signals is not None
            gate.set()
            await asyncio.wait_for(asyncio.gather(*waiting), SECONDS_MAX)
            assert ticket.signals is None
            gate.clear()
