"""``inturn workers`` and ``inturn stats``: who works, and what was settled minute by minute."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from inturn.cli.call import Call, command
from inturn.cli.documents import worker_document
from inturn.cli.options import QueueArgument
from inturn.cli.paging import insist_on_queue
from inturn.cli.plain import age, duration, name_text
from inturn.cli.sheet import Column, number_text
from inturn.model.worker import DURATION_BOUNDS_SECONDS, Stat, WorkerView
from inturn.policy.explain import WORKER_SEEN_SECONDS
from inturn.store.protocol import Store

MINUTES_MAX = 7 * 24 * 60  # older figures are pruned

_WORKER_COLUMNS = (
    Column("worker", shrinks=True),
    Column("seen", right=True),
    Column("up", right=True),
    Column("running", right=True),
    Column("queues", shrinks=True),
    Column("kinds", shrinks=True),
    Column("host", shrinks=True, wide=True),
    Column("pid", right=True, wide=True),
    Column("version", wide=True),
)
_STAT_COLUMNS = (
    Column("minute"),
    Column("kind", shrinks=True),
    *(Column(head, right=True) for head in ("done", "retried", "buried", "released")),
    Column("mean", right=True),
    Column("95% within", right=True),
)


def add_to(app: typer.Typer) -> None:
    """Make these commands of ``app``."""
    command(app, "workers", "inturn workers")(_workers)
    command(app, "stats", "inturn stats orders", "inturn stats orders --minutes 5")(_stats)


def _workers(call: Call) -> None:
    """List the workers that were heard of lately, the latest first.

    One that stops leaves the list. One that died stays for a day, silent since it was last seen.
    """

    async def read(store: Store) -> tuple[list[WorkerView], datetime]:
        return await store.workers(), await store.now()

    found, now = call.run(read)
    call.out.table(
        {"workers": [worker_document(worker, is_silent(worker, now)) for worker in found]},
        _WORKER_COLUMNS,
        [_worker_cells(worker, now) for worker in found],
        empty="No worker was heard of lately.",
    )


def _stats(
    call: Call,
    queue: QueueArgument,
    minutes: Annotated[
        int, typer.Option(min=1, max=MINUTES_MAX, help="How far to look back.")
    ] = 60,
) -> None:
    """Show what was settled per minute and kind, and how long attempts took."""

    async def read(store: Store) -> tuple[list[Stat], datetime]:
        await insist_on_queue(store, queue)
        since = await store.now() - timedelta(minutes=minutes)
        return await store.stats(queue, since=since), since

    found, since = call.run(read)
    document = {
        "queue": queue,
        "since": since,
        "duration_bounds_seconds": DURATION_BOUNDS_SECONDS,
        "stats": [msgspec.structs.asdict(stat) for stat in found],
    }
    call.out.table(
        document,
        _STAT_COLUMNS,
        [_stat_cells(stat) for stat in found],
        empty=f"Nothing was settled within {minutes} min.",
    )


def within(durations: tuple[int, ...], share: float) -> str:
    """Return the bound within which a share of the attempts ended, from their histogram."""
    attempts = sum(durations)
    if not attempts:
        return ""
    ended = 0
    for number, seconds in zip(durations, DURATION_BOUNDS_SECONDS, strict=False):
        ended += number
        if ended >= share * attempts:
            return duration(seconds)
    return f">{duration(DURATION_BOUNDS_SECONDS[-1])}"


def _stat_cells(stat: Stat) -> tuple[Any, ...]:
    attempts = sum(stat.durations)
    return (
        stat.minute_at.strftime("%Y-%m-%d %H:%MZ"),
        name_text(stat.kind),
        number_text(stat.done),
        number_text(stat.retried, "yellow"),
        number_text(stat.buried, "red"),
        number_text(stat.released),
        duration(stat.seconds_sum / attempts) if attempts else "",
        within(stat.durations, 0.95),
    )


def is_silent(worker: WorkerView, now: datetime) -> bool:
    """Whether a worker has not been heard of for so long that it should be taken for dead."""
    seen_at = worker.seen_at
    return seen_at is not None and (now - seen_at).total_seconds() > WORKER_SEEN_SECONDS


def _worker_cells(worker: WorkerView, now: datetime) -> tuple[Any, ...]:
    silent, seen = is_silent(worker, now), age(worker.seen_at, now)
    return (
        name_text(worker.id),
        Text(f"silent since {seen}", "red") if silent else seen,
        "" if silent else age(worker.started_at, now),
        "" if silent else number_text(worker.running, "green"),
        name_text(" ".join(worker.queues)),
        name_text(" ".join(worker.kinds)),
        name_text(worker.host),
        str(worker.pid),
        name_text(worker.version),
    )
