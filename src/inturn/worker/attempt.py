"""One attempt at one job: its payload read, its handler called, its outcome a verdict."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from random import Random
from time import perf_counter
from typing import Any

from inturn.model.errors import InvalidPayload, PayloadMismatch, PayloadTooLarge
from inturn.model.job import LeasedJob
from inturn.model.lease import Lease
from inturn.policy.retry import after_failure
from inturn.policy.settlement import Outcome
from inturn.policy.verdict import Bury, Done, Verdict
from inturn.queue.arguments import encode_result
from inturn.queue.context import Context, Way
from inturn.queue.job import Job

_DONE = Done()


class Attempts:
    """Makes attempts at the jobs of one kind. An attempt never raises: it has an outcome."""

    def __init__(self, job: Job[Any, Any], random: Random) -> None:
        self._job = job
        self._random = random
        self.is_async = job.is_async

    async def on_loop(self, lease: Lease, leased: LeasedJob, way: Way) -> Outcome:
        """Make an attempt with a handler that is an ``async def``."""
        began = perf_counter()
        try:
            args, kwargs = self._arguments(lease, leased, way)
            call = self._job.function(*args, **kwargs)
            value = await (call if leased.timeout_seconds is None else _timed(call, leased))
            verdict: Verdict = self._done(value)
        except Exception as error:
            verdict = self._failed(leased, error)
        return Outcome(leased, verdict, perf_counter() - began)

    def on_thread(self, lease: Lease, leased: LeasedJob, way: Way) -> Outcome:
        """Make an attempt with a handler that is a ``def``."""
        began = perf_counter()
        try:
            args, kwargs = self._arguments(lease, leased, way)
            verdict: Verdict = self._done(self._job.function(*args, **kwargs))
        except Exception as error:
            verdict = self._failed(leased, error)
        return Outcome(leased, verdict, perf_counter() - began)

    def _arguments(
        self, lease: Lease, leased: LeasedJob, way: Way
    ) -> tuple[list[Any], dict[str, Any]]:
        args, kwargs = self._job.arguments.decode(leased.payload)
        if not self._job.has_context:
            return args, kwargs
        deadline = None
        if leased.timeout_seconds is not None:
            deadline = datetime.now(UTC) + timedelta(seconds=leased.timeout_seconds)
        return [Context(leased, lease.token, deadline, way), *args], kwargs

    def _done(self, value: Any) -> Done:
        if value is None or self._job.keep_result is None:
            return _DONE
        try:
            return Done(encode_result(value), self._job.keep_result)
        except (InvalidPayload, PayloadTooLarge) as error:
            # To run it again would do its work twice.
            said = f"job {self._job.kind!r} is done, and its result is not kept: {error}"
            warnings.warn(said, RuntimeWarning, stacklevel=2)
            return _DONE

    def _failed(self, leased: LeasedJob, error: Exception) -> Verdict:
        if isinstance(error, PayloadMismatch):
            return Bury(str(error))
        return after_failure(leased.attempt, error, policy=self._job.retry, random=self._random)


async def _timed(call: Awaitable[Any], leased: LeasedJob) -> Any:
    try:
        async with asyncio.timeout(leased.timeout_seconds) as timer:
            return await call
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise TimeoutError(f"it took longer than {leased.timeout_seconds:g} s") from error
