"""Running what may run on a real worker, until nothing is left or it takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from typing import NoReturn

from inturn.model import bounds
from inturn.model.admissible import check_number
from inturn.model.job import LeasedJob
from inturn.policy.raised import describe, is_a
from inturn.policy.retry import RetryLater
from inturn.queue.app import App
from inturn.store.protocol import Store
from inturn.testing.clock import HandClock
from inturn.testing.drain_worker import DrainWorker
from inturn.testing.drained import Drained, Ran
from inturn.testing.due import Dues
from inturn.testing.errors import DrainTimeout
from inturn.testing.ledger import Ledger

ENDING_SECONDS = 2.0  # for handlers to end once they are told that time is up


class Drain:
    """One drain: its worker, its time, and what it makes of errors."""

    def __init__(
        self, app: App, ledger: Ledger, clock: HandClock, *, slots: int, timeout: float
    ) -> None:
        check_number("timeout", timeout, 0.001, bounds.WAIT_SECONDS_MAX)
        self._app, self._ledger, self._clock, self._timeout = app, ledger, clock, timeout
        self._slots, self._stops_at = slots, 0.0

    async def run(self, store: Store, ends_at: datetime) -> Drained:
        """Run what may run now, and what becomes due until a time, each at its time."""
        with self._ledger.draining() as drained:
            self._stops_at = asyncio.get_running_loop().time() + self._timeout
            # In a task of its own: what hooks set in context variables is not for the test.
            await asyncio.ensure_future(self._run(store, ends_at))
        return drained

    async def _run(self, store: Store, ends_at: datetime) -> None:
        """Be one worker to the app's hooks, however many it takes for time to pass."""
        if not self._app.jobs:
            await self._pass_time(store, ends_at)
            return
        hooks = self._app.hooks
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._call, "on_stop", hooks.stop, seconds_min=ENDING_SECONDS)
            await self._call("on_start", hooks.start, seconds_min=0.0)
            await self._pass_time(store, ends_at)

    async def _call(
        self, name: str, hooks: Callable[[], Awaitable[None]], *, seconds_min: float
    ) -> None:
        """Call hooks, here, so that jobs see the context variables that they set."""
        limit = asyncio.timeout(max(self._left(), seconds_min))
        try:
            async with limit:
                await hooks()
        except TimeoutError:
            if limit.expired():
                self._complain(f"a hook of {name}")
            raise

    async def _pass_time(self, store: Store, ends_at: datetime) -> None:
        worker = DrainWorker(
            self._app, self._ledger, slots=self._slots, ending_seconds=ENDING_SECONDS
        )
        dues, has_suspects = Dues(), False
        try:
            while True:
                found = await store.reclaim()  # what others lost is found at once, not by a sweep
                has_suspects |= found.suspects > 0 or dues.has_suspects
                if self._app.jobs:
                    await self._work(worker, has_suspects=has_suspects)
                now, put_off = self._clock.now(), self._ledger.put_off_since()
                due = await dues.next(store, now, put_off)
                if due is None or due > ends_at:
                    break
                self._wait_for(due)
        finally:
            await worker.end()
        self._wait_for(ends_at)

    def _wait_for(self, time: datetime) -> None:
        """Let time pass until a moment, unless a handler has moved the clock further."""
        if self._clock.now() < time:
            self._clock.move_to(time)

    async def _work(self, worker: DrainWorker, *, has_suspects: bool) -> None:
        """Let a worker work until all is still in every queue that jobs were submitted to."""
        queues: set[str] = set()
        while not queues >= (known := self._queues()):
            queues = known
            if not await worker.work(queues, seconds=self._left(), is_new=has_suspects):
                self._complain()

    def _queues(self) -> set[str]:
        declared = {job.options.queue for job in self._app.jobs.values()}
        return declared | {one.queue for one in self._ledger.submissions.values()}

    def _left(self) -> float:
        return self._stops_at - asyncio.get_running_loop().time()

    def _complain(self, *running: str) -> NoReturn:
        begun, claimed = self._ledger.unfinished()
        running += tuple(map(_named, begun))
        waiting = tuple(map(_named, claimed))
        most, advice = self._ledger.ran_most(), ""
        if most is not None and most[1] > 1:
            advice = f"{most[0]!r} ran {most[1]:,} times: does it submit itself for ever? "
        ended = str(self._ledger.drained)
        raise DrainTimeout(self._timeout, ended, running[:5], waiting[:5], advice)


def _named(job: LeasedJob) -> str:
    return f"{job.kind!r} {job.id} (attempt {job.attempt})"


def raise_first(drained: Drained) -> None:
    """Raise what the first handler raised that did not only ask to come later."""
    failed = [
        (one, one.error)
        for one in drained.ran
        if one.error is not None and not is_a(one.error, RetryLater)
    ]
    if failed:
        (first, error), *others = failed
        _annotate(error, _note(first, others))
        raise error


def _annotate(error: Exception, note: str) -> None:
    """Add a note to an error, also to one that lets nothing be set, such as a frozen dataclass."""
    with suppress(Exception):  # what the handler raised counts more than a note
        if not hasattr(error, "__notes__"):
            object.__setattr__(error, "__notes__", [])
        error.add_note(note)


def _note(first: Ran, others: Sequence[tuple[Ran, Exception]]) -> str:
    lines = [f"raised by {first}; drain(raising=False) returns errors instead."]
    lines += [f"also failed: {one}, with {describe(error)}" for one, error in others[:10]]
    return "\n".join(lines)
