"""Parting at once from jobs that run: cancel what can be cancelled, and give back the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from inturn.executor.call import ON_LOOP
from inturn.executor.ticket import LocalTicket
from inturn.policy.verdict import Retry

PART_SECONDS_MAX = 1.0  # for each: what the loop is at, handlers that clean up, a last word

_GONE_SECONDS = 1.0
STILL_RUNS = Retry(
    delay_seconds=_GONE_SECONDS,
    error="its worker was told to stop at once while it ran",
    counted=False,
)
"""What is said of a job whose handler could not be stopped: it may run elsewhere, but only when
this process should be gone, so that two of a key do not run at once."""


async def cancel_all(tickets: Sequence[LocalTicket]) -> None:
    """Cancel jobs, and wait a moment for those on the loop to clean up and end."""
    for ticket in tickets:
        ticket.cancel()
    ending = [asyncio.ensure_future(one.result()) for one in tickets if one.place == ON_LOOP]
    if ending:
        _, pending = await asyncio.wait(ending, timeout=PART_SECONDS_MAX)
        for late in pending:
            late.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
