"""``inturn store``: make a store's tables, verify them, clear up, and say where it is."""

from __future__ import annotations

from datetime import datetime

import msgspec
import typer

from inturn import __version__
from inturn.cli.call import Call, command
from inturn.cli.exits import ExitCode
from inturn.cli.help import Group
from inturn.cli.plain import count, plain, time_text
from inturn.model.lane import QueueStatus
from inturn.store.protocol import Pruned, Store

app = typer.Typer(
    help="Make a store's tables, verify them, clear up, say where it is.",
    no_args_is_help=True,
    cls=Group,
)


@command(
    app,
    "migrate",
    "inturn store migrate --store sqlite:///work.db",
    "inturn store migrate --store postgresql://owner@db.example/app",
)
def _migrate(call: Call) -> None:
    """Make the store's tables, or bring them to this version. Safe to repeat."""
    version = call.migrate()
    shown = call.address.shown()
    text = plain(f"{shown} has schema version {version}.")
    call.out.answer({"store": shown, "schema_version": version}, text)


@command(app, "check", "inturn store check")
def _check(call: Call) -> None:
    """Verify every invariant of the tables; leave with 1 if one does not hold.

    It reads everything: not for every minute.
    """
    problems = call.run(lambda store: store.check())
    text = "\n".join(problems) if problems else "Nothing wrong."
    call.out.answer({"problems": problems}, plain(text))
    if problems:
        raise typer.Exit(ExitCode.NO)


@command(app, "prune", "inturn store prune")
def _prune(call: Call) -> None:
    """Take away what is finished and past its time.

    Workers do it by themselves: run it, every few minutes, only where none lives so long.
    """
    pruned = call.run(lambda store: store.prune())
    call.out.answer(msgspec.structs.asdict(pruned), _pruned_text(pruned))


@command(app, "info", "inturn store info", "inturn store info --json")
def _info(call: Call) -> None:
    """Say which store this is, who named it, and what it holds."""

    async def read(store: Store) -> tuple[list[QueueStatus], int, datetime]:
        return await store.queues(), len(await store.workers()), await store.now()

    queues, workers, now = call.run(read)
    document = {
        "store": call.address.shown(),
        "named_by": call.address.source,
        "inturn_version": __version__,
        "now": now,
        "queues": len(queues),
        "workers": workers,
        "waiting": sum(queue.waiting for queue in queues),
        "running": sum(queue.running for queue in queues),
        "dead": sum(queue.dead for queue in queues),
    }
    shown = document | {"now": time_text(now)}
    rows = [(name.replace("_", " "), plain(str(value))) for name, value in shown.items()]
    call.out.fields(document, rows)


def _pruned_text(pruned: Pruned) -> str:
    """Say what was taken away, and leave out what was not."""
    nouns = {
        "jobs": "done job",
        "cancelled": "cancelled job",
        "lanes": "idle lane",
        "results": "result",
        "dedupes": "dedupe key",
        "stats": "minute of statistics",
        "workers": "silent worker",
    }
    gone = [
        count(getattr(pruned, name), noun) for name, noun in nouns.items() if getattr(pruned, name)
    ]
    return f"Took away {', '.join(gone)}." if gone else "Nothing to take away."
