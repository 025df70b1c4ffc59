"""Jobs that a job submits with ``detached=False`` go with it."""

from __future__ import annotations

import asyncio

import pytest

from inturn.executor import LocalTicket
from inturn.model.errors import JobCancelled
from tests.executor.support import SECONDS_MAX, Running, Seen, ended_with


@pytest.mark.parametrize("is_of_another", [False, True])
async def test_what_a_job_submits_and_does_not_detach_goes_with_it(
    is_of_another: bool,
) -> None:
    """(004-17)"""
    seen, gate, begun = Seen(), asyncio.Event(), asyncio.Event()
    async with (
        Running(slots=4, error_handler=seen.handle) as executor,
        Running(slots=4, error_handler=seen.handle) as another,
    ):
        parts: dict[str, LocalTicket] = {}

        async def parent() -> None:
            to = another if is_of_another else executor
            for key in ("runs", "waits"):
                await to.submit(key, gate.wait)
                parts[key] = await to.submit(key, gate.wait, detached=False)
            parts["at once"] = await to.submit("at once", gate.wait, detached=False)
            parts["detached"] = await to.submit("detached", gate.wait)
            begun.set()
            await gate.wait()

        ticket = await executor.submit("parent", parent)
        await asyncio.wait_for(begun.wait(), SECONDS_MAX)
        ticket.cancel()
        assert isinstance(await ended_with(ticket), JobCancelled)
        for key in ("runs", "waits", "at once"):
            error = await ended_with(parts[key])
            assert isinstance(error, JobCancelled)
            assert error.why == "the job that submitted it was cancelled"
        assert len(seen.failures) == 4
        assert not parts["detached"].ended
        gate.set()
        await parts["detached"].result(SECONDS_MAX)


@pytest.mark.parametrize("way", ["ends well", "fails", "swallows"])
async def test_a_job_that_is_not_cancelled_leaves_alone_what_it_submitted(way: str) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    async with Running(slots=4, max_attempts=1) as executor:
        parts: list[LocalTicket] = []

        async def parent() -> None:
            parts.append(await executor.submit("part", gate.wait, detached=False))
            begun.set()
            if way == "fails":
                raise ValueError
            try:
                await asyncio.sleep(0 if way == "ends well" else SECONDS_MAX)
            except asyncio.CancelledError:
                return

        ticket = await executor.submit("parent", parent)
        await asyncio.wait_for(begun.wait(), SECONDS_MAX)
        if way == "swallows":
            ticket.cancel()
        error = await ended_with(ticket)
        assert type(error) is (ValueError if way == "fails" else type(None))
        await executor.barrier("next")
        assert not parts[0].ended
        gate.set()
        assert await parts[0].result(SECONDS_MAX) is True
