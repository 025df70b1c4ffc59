"""``inturn schedules``: list schedules, pause them, run one now."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from inturn.cli.options import AppOption, ByOption, JsonOption, StoreOption, examples
from inturn.cli.session import Session
from inturn.cli.text import Cell, age, duration, name_text, plain, seconds_text, short_id, table
from inturn.poll.rule import Cron, Rule
from inturn.poll.schedules import (
    ScheduleView,
    pause_schedule,
    resume_schedule,
    run_schedule,
    schedules,
)
from inturn.store.store import Store

app = typer.Typer(help="List schedules, pause them, run one now.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.")]

_HEADS = ("schedule…", "fires…", ">next in", ">last", "job", "state¶")


@app.command("list", epilog=examples("inturn schedules list"))
def list_(app: AppOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List schedules: when they fire, and what keeps them from it."""
    session = Session(app, store, as_json)

    async def read(store: Store) -> tuple[list[ScheduleView], Any]:
        return await schedules(store), await store.now()

    found, now = session.run(read)

    def cells(one: ScheduleView) -> tuple[Cell, ...]:
        return (
            name_text(one.name),
            rule_text(one.rule),
            "" if _state(one) else duration(max((one.next_at - now).total_seconds(), 0.0)),
            age(one.last_at, now),
            one.last_job[-8:] if one.last_job else "",
            _state(one),
        )

    session.answer(
        {"schedules": [_document(one) for one in found]},
        table(_HEADS, map(cells, found)) if found else "No schedules yet.",
    )


@app.command("run", epilog=examples("inturn schedules run nightly_report"))
def run(
    name: NameArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a schedule's job now, besides its times."""
    session = Session(app, store, as_json)
    ticket = session.run(lambda store: run_schedule(store, name))
    session.answer(
        {"schedule": name, "job": str(ticket.id)},
        Text(plain(f"Schedule {name!r} has submitted job {short_id(ticket.id)}.")),
    )


@app.command("pause", epilog=examples("inturn schedules pause nightly_report"))
def pause(
    name: NameArgument,
    by: ByOption,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a schedule from firing until it is resumed."""
    session = Session(app, store, as_json)
    session.run(lambda store: pause_schedule(store, name, by=by))
    session.answer(
        {"schedule": name, "paused_by": by}, Text(plain(f"Schedule {name!r} is paused by {by}."))
    )


@app.command("resume", epilog=examples("inturn schedules resume nightly_report"))
def resume(
    name: NameArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a paused schedule with its next time. What it missed is left out."""
    session = Session(app, store, as_json)
    session.run(lambda store: resume_schedule(store, name))
    session.answer(
        {"schedule": name, "paused_by": None}, Text(plain(f"Schedule {name!r} is not paused."))
    )


def rule_text(rule: Rule) -> str:
    """Return a rule as it was written."""
    if isinstance(rule, Cron):
        return rule.expression + ("" if rule.timezone == "UTC" else f" {rule.timezone}")
    return f"every {seconds_text(rule.seconds)}"


def _state(one: ScheduleView) -> str:
    """Return what keeps a schedule from firing, if anything does."""
    if one.paused_by is not None:
        return f"paused by {one.paused_by}"
    return "" if one.declared else "no running worker declares it"


def _document(one: ScheduleView) -> dict[str, Any]:
    return msgspec.structs.asdict(one) | {"rule": msgspec.to_builtins(one.rule)}
