"""``inturn status`` and ``inturn workers``: what is in the queues, and who works on it."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from inturn.cli.queues import queue_document
from inturn.cli.session import Session
from inturn.cli.text import Cell, age, count, name_text, number_text, own_kinds, print_to, table
from inturn.model.lane import QueueStatus
from inturn.model.worker import WorkerView
from inturn.policy.explain import WORKER_SEEN_SECONDS, worker_option
from inturn.store.store import Store

EXAMPLES = ("inturn status -A shop:app", "inturn status -A shop:app --watch")
WATCH_SECONDS = 1.0

_WORKER_HEADS = ("worker…", ">seen", ">up", ">running", "queues…", "kinds…")
_SELDOM = ("scheduled", "retrying", "blocked")  # columns that are left out while all zero


class _Found(msgspec.Struct, frozen=True):
    """What the store said about its queues and workers at one moment."""

    queues: list[QueueStatus]
    done: dict[str, int]  # within the last hour
    workers: list[WorkerView]
    now: datetime


def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
) -> None:
    """Count each queue's jobs by state, and say what holds them up."""
    session: Session = context.obj
    if watch:
        with contextlib.suppress(KeyboardInterrupt):
            _watch(session)
        return
    found = session.run(_read)
    session.answer(_document(found), _shown(session, found))


def workers(context: typer.Context) -> None:
    """List workers, the latest first. One that died stays listed for a day."""
    session: Session = context.obj

    async def read(store: Store) -> tuple[list[WorkerView], datetime]:
        return await store.workers(), await store.now()

    found, now = session.run(read)
    session.answer(
        {
            "workers": [
                msgspec.structs.asdict(worker) | {"silent": _is_silent(worker, now)}
                for worker in found
            ]
        },
        _worker_table(found, now)
        if found
        else f"No workers. Start one: `{_work_command(session)}`",
    )


async def _read(store: Store) -> _Found:
    now = await store.now()
    queues = await store.queues()
    hour = now - timedelta(hours=1)
    done = {
        queue.name: sum(stat.done for stat in await store.stats(queue.name, since=hour))
        for queue in queues
    }
    return _Found(queues, done, await store.workers(), now)


def _document(found: _Found) -> dict[str, Any]:
    return {"at": found.now, "queues": [queue_document(status) for status in found.queues]}


def _watch(session: Session) -> None:
    """Print the status again and again: in place on a terminal, line after line elsewhere."""
    with Live(console=session.console, auto_refresh=False) as live:
        while True:
            found = session.run(_read)
            if session.as_json:
                print(msgspec.json.encode(_document(found)).decode(), flush=True)
            elif session.console.is_terminal:
                live.update(_shown(session, found), refresh=True)
            else:
                print_to(session.console, _shown(session, found))
                session.console.file.flush()
            time.sleep(WATCH_SECONDS)


def _shown(session: Session, found: _Found) -> RenderableType:
    if not found.queues:
        return Text("No jobs were ever submitted to this store.")
    seldom = [name for name in _SELDOM if any(getattr(one, name) for one in found.queues)]
    heads = ["queue…", ">waiting", ">running", *(f">{name}" for name in seldom)]
    heads += [">dead", ">oldest", ">done/hour"]
    rows = [_cells(status, seldom, found) for status in found.queues]
    said = [_note(status) for status in found.queues] + _missing(session, found)
    notes = [Text(note) for note in said if note]
    return Group(table(heads, rows), *([Text(), *notes] if notes else []))


def _cells(status: QueueStatus, seldom: list[str], found: _Found) -> list[Cell]:
    return [
        name_text(status.name),
        number_text(status.waiting),
        number_text(status.running, "green"),
        *(number_text(getattr(status, name), "yellow") for name in seldom),
        number_text(status.dead, "red"),
        age(status.oldest_at, found.now),
        number_text(found.done[status.name]),
    ]


def _note(status: QueueStatus) -> str:
    """Say what holds a queue back, and which command goes on from there."""
    name, settings = name_text(status.name), status.settings
    notes = [
        f"paused by {name_text(status.paused_by)}" if status.paused_by is not None else "",
        f"{count(status.halted, 'lane')} halted (`inturn lanes list {name} --state halted`)"
        if status.halted
        else "",
        f"{count(status.dead, 'dead job')} (`inturn dead list --queue {name}`)"
        if status.dead and not status.halted
        else "",
        f"at its limit: {status.limit_reached}" if status.limit_reached and status.waiting else "",
        f"open up to round {status.gate}" if status.gate else "",
        f"at most {count(settings.depth_max, 'job')}" if settings.depth_max else "",
        f"at most {settings.lane_depth_max:,} of one key" if settings.lane_depth_max else "",
    ]
    said = ", ".join(note for note in notes if note)
    return f"{name}: {said}" if said else ""


def _missing(session: Session, found: _Found) -> list[str]:
    """Say which queues have jobs and no worker. A local one needs a worker that names it."""
    alive = [worker for worker in found.workers if not _is_silent(worker, found.now)]
    served = {queue for worker in alive for queue in worker.queues}
    unserved = [
        status
        for status in found.queues
        if status.waiting + status.scheduled + status.retrying and status.name not in served
    ]
    local = [status.name for status in unserved if status.settings.local]
    others = [name_text(status.name) for status in unserved if not status.settings.local]
    command = _work_command(session)
    said = [
        f"No worker takes jobs from {name_text(name)}. Start one there: "
        f"`{command} {worker_option(name)}`"
        for name in local
    ]
    if others and not alive:
        said.append(f"No worker is running. Start one: `{command}`")
    elif others:
        said.append(f"No worker takes jobs from {', '.join(others)}. Start one: `{command}`")
    return said


def _work_command(session: Session) -> str:
    return f"inturn work {session.target or 'MODULE:APP'}"


def _is_silent(worker: WorkerView, now: datetime) -> bool:
    """Whether a worker was not heard of for so long that it is probably dead."""
    seen_at = worker.seen_at
    return seen_at is not None and (now - seen_at).total_seconds() > WORKER_SEEN_SECONDS


def _worker_table(found: list[WorkerView], now: datetime) -> RenderableType:
    """Return the workers, with the duties that some do alone, if any do."""
    has_duties = any(worker.duties for worker in found)
    heads = [*_WORKER_HEADS, *["duties…"] * has_duties]
    return table(
        heads,
        [
            [*_worker_cells(one, now), *[name_text(" ".join(one.duties))] * has_duties]
            for one in found
        ],
    )


def _worker_cells(worker: WorkerView, now: datetime) -> tuple[Cell, ...]:
    silent, seen = _is_silent(worker, now), age(worker.seen_at, now)
    return (
        name_text(worker.id),
        Text(f"{seen} ago", "red") if silent else seen,
        "" if silent else age(worker.started_at, now),
        "" if silent else number_text(worker.running, "green"),
        name_text(" ".join(worker.queues)),
        name_text(" ".join(own_kinds(worker.kinds))),
    )
