"""One handler called by itself, as a worker would call it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar, cast

from inturn.model.admissible import check_whole
from inturn.model.clock import SystemClock
from inturn.model.errors import InvalidPayload, PayloadTooLarge, ResultLost
from inturn.model.ids import new_id
from inturn.model.job import LeasedJob
from inturn.queue.app import App
from inturn.queue.arguments import decode_result
from inturn.queue.context import Context, JobTransaction
from inturn.queue.job import Job
from inturn.store.protocol import Store
from inturn.testing.named import check_job
from inturn.worker.own_thread import on_own_thread
from inturn.worker.returned import check_awaited, encoded
from inturn.worker.way import CallTransaction

R = TypeVar("R")


class RehearsedWay:
    """The ways of a context that has no lease: nothing can be lost, nothing is settled."""

    is_lost = False

    def __init__(self, app: App) -> None:
        self._app = app

    async def heartbeat(self) -> None:
        """Find that the job is still ours."""

    async def progress(self, *_said: Any) -> None:
        """Let the handler say how far it is."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[JobTransaction]:
        """Open a transaction for the handler's own rows."""
        store = await self._app.run(_itself)
        async with store.transaction() as transaction:
            yield CallTransaction(transaction, self._app)


@dataclass(frozen=True, slots=True)
class Rehearsed(Generic[R]):
    """How a handler ended, on its way to the test, where it is raised if it is an error.

    A loop would not carry all of them: it ends with the SystemExit of a task.
    """

    value: R | None
    error: BaseException | None

    def result(self) -> R:
        """Return what the handler returned, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return cast("R", self.value)


async def rehearse(
    job: Job[Any, R], app: App, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Rehearsed[R]:
    """Call a handler, inside what surrounds an attempt, with arguments and a result that went
    through a payload.
    """
    check_job(job)
    payload = job.call(*args, **kwargs).new.payload
    positional, named = job.arguments.decode(payload)
    context = rehearsed_context(job, app, payload=payload)
    if job.has_context:
        positional = [context, *positional]

    def called() -> Awaitable[Any]:
        if job.is_async:
            return job.function(*positional, **named)  # type: ignore[no-any-return]
        return on_own_thread(lambda: job.function(*positional, **named))

    try:
        return Rehearsed(_kept(job, context, await app.hooks.surround(context, called)), None)
    except BaseException as error:
        return Rehearsed(None, error)


def _kept(job: Job[Any, R], context: Context, value: Any) -> Any:
    """Return what a ticket's result would be, or raise what that or the attempt would raise."""
    check_awaited(job.kind, value)
    if value is None or job.keep_result is None:
        return value
    try:
        text = encoded(value)
    except (InvalidPayload, PayloadTooLarge) as error:
        raise ResultLost(context.job.id, str(error)) from error
    return decode_result(text or "null", job.result_hint)


def rehearsed_context(
    job: Job[Any, Any], app: App, *, attempt: int = 1, payload: str = "null"
) -> Context:
    """Return a context such as a worker makes, without a lease behind it."""
    check_job(job)
    check_whole("attempt", attempt, 1, job.retry.attempts_max)
    leased = LeasedJob(
        id=new_id(),
        queue=job.options.queue,
        key=job.options.key,
        kind=job.kind,
        payload=payload,
        priority=job.options.priority,
        round=job.options.round,
        attempts_max=job.retry.attempts_max,
        timeout_seconds=job.timeout,
        enqueued_at=(app.clock or SystemClock()).now(),
        position=1,
        attempt=attempt,
    )
    deadline = None if job.timeout is None else datetime.now(UTC) + timedelta(seconds=job.timeout)
    return Context(leased, 1, deadline, RehearsedWay(app))


async def _itself(store: Store) -> Store:
    return store
