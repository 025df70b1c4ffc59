"""Calls on their way to the store: each is one job, however often it is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from inturn.model.errors import BadInput
from inturn.model.job import NewJob
from inturn.model.job import Ticket as Accepted
from inturn.queue.home import repeated
from inturn.queue.ticket import Ticket

if TYPE_CHECKING:
    from inturn.queue.app import App
    from inturn.queue.job import Call
    from inturn.store.store import Store

R = TypeVar("R")


async def send(app: App, calls: Sequence[Call[R]]) -> list[Ticket[R]]:
    """Submit calls that were looked at, and that nobody else sends."""
    accepted = await repeated(app, sending([call.new for call in calls]))
    return [Ticket(app, one, call.hint) for one, call in zip(accepted, calls, strict=True)]


@contextmanager
def sent_once(calls: Sequence[Call[Any]]) -> Iterator[None]:
    """Let calls be submitted if none of them was before; what failed may be tried again."""
    hold(calls)
    try:
        yield
    except BaseException:
        free(calls)
        raise


def hold(calls: Sequence[Call[Any]]) -> None:
    """Take calls to submit them. Refused if one was submitted before, or is about to be: it would
    be the first one's job again, and run no second time.
    """
    check_distinct(calls)
    for call in calls:
        if call.fate.is_sent or call.fate.is_over:
            raise BadInput(
                f"this call of {call.new.kind!r} was submitted before, as job {call.id}, and would "
                f"not run again: a call is one job. Make one for each time: job.call(…)."
            )
    for call in calls:
        call.fate.is_sent = True


def check_distinct(calls: Sequence[Call[Any]]) -> None:
    """Refuse a batch in which a call stands twice."""
    if len({call.id for call in calls}) == len(calls):
        return
    ids = set()
    for call in calls:
        if call.id in ids:
            raise BadInput(
                f"this call of {call.new.kind!r}, job {call.id}, stands twice in the batch, and "
                f"would run once: a call is one job. Make one for each time: job.call(…)."
            )
        ids.add(call.id)


def free(calls: Sequence[Call[Any]]) -> None:
    """Let calls that were not accepted be submitted again."""
    for call in calls:
        call.fate.is_sent = False


def sending(jobs: list[NewJob]) -> Callable[[Store], Awaitable[list[Accepted]]]:
    """Return the verb that enqueues jobs, and may be called again: the store knows their ids."""
    is_sent = False

    def enqueue(store: Store) -> Awaitable[list[Accepted]]:
        nonlocal is_sent
        given = [resent(job) for job in jobs] if is_sent else jobs
        is_sent = True
        return store.enqueue(given)

    return enqueue


def resent(new: NewJob) -> NewJob:
    """Return a job that may be in the store already, from a call whose answer never came."""
    return msgspec.structs.replace(new, unsent=False)
