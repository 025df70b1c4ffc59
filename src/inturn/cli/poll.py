"""``inturn poll``: list sources, run one now, set it back, reconcile it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from inturn.cli.options import AppOption, JsonOption, StoreOption, examples
from inturn.cli.schedules import rule_text
from inturn.cli.session import Session
from inturn.cli.text import (
    Cell,
    age,
    count,
    fields,
    name_text,
    number_text,
    one_line,
    plain,
    short_id,
    table,
    time_text,
)
from inturn.poll.sources import (
    SourceView,
    reconcile_source,
    reset_source,
    run_source,
    source_view,
    sources,
)
from inturn.store.store import Store

app = typer.Typer(help="List sources, run one now, reconcile it.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The source.")]

_HEADS = ("source…", ">items", ">waiting", ">dead", ">lag", ">success", "state¶")


@app.command("list", epilog=examples("inturn poll list"))
def list_(app: AppOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List sources: how many items they have, and how far behind their changes are.

    Waiting, dead and lag are those of the queue of its changes.
    """
    session = Session(app, store, as_json)

    async def read(store: Store) -> tuple[list[SourceView], datetime]:
        return await sources(store), await store.now()

    found, now = session.run(read)

    def cells(one: SourceView) -> tuple[Cell, ...]:
        return (
            name_text(one.name),
            number_text(one.items),
            number_text(one.waiting),
            number_text(one.dead, "red"),
            age(one.oldest_at, now),
            age(one.succeeded_at, now),
            _state(one),
        )

    session.answer(
        {"sources": [_document(one) for one in found]},
        table(_HEADS, map(cells, found)) if found else "No sources yet.",
    )


@app.command("status", epilog=examples("inturn poll status consignments"))
def status(
    name: NameArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one source: its cursor, its last error, its reconcile."""
    session = Session(app, store, as_json)
    one = session.run(lambda store: source_view(store, name))
    schedule = "on demand" if one.schedule is None else rule_text(one.schedule.rule)
    session.answer(
        _document(one),
        fields(
            [
                ("source", name_text(one.name)),
                ("runs", schedule),
                ("state", _state(one) or "works"),
                ("cursor", one_line(one.cursor) or "none: from the beginning"),
                ("items", f"{one.items:,}"),
                ("changes", f"{one.changes:,} of {count(one.pages, 'page')}"),
                ("last change", time_text(one.changed_at)),
                ("last success", time_text(one.succeeded_at)),
                ("failing since", time_text(one.failing_since)),
                ("next try", time_text(one.next_try_at)),
                ("waiting", f"{one.waiting:,}"),
                ("dead", f"{one.dead:,}"),
                ("reconcile", _walk(one)),
            ]
        ),
    )


@app.command("run", epilog=examples("inturn poll run consignments"))
def run(
    name: NameArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch a source's changes now, also if it is failing and would be tried again later."""
    session = Session(app, store, as_json)
    ticket = session.run(lambda store: run_source(store, name, at_once=True))
    session.answer(
        {"source": name, "job": str(ticket.id)},
        Text(plain(f"Source {name!r} is read by job {short_id(ticket.id)}.")),
    )


@app.command(
    "reconcile",
    epilog=examples("inturn poll reconcile consignments", "inturn poll reconcile items --force"),
)
def reconcile(
    name: NameArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Delete what a held walk has not seen.")
    ] = False,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Walk through a whole source; delete what it does not have any more."""
    session = Session(app, store, as_json)
    ticket = session.run(lambda store: reconcile_source(store, name, force=force))
    session.answer(
        {"source": name, "job": str(ticket.id)},
        Text(plain(f"Source {name!r} is reconciled by job {short_id(ticket.id)}.")),
    )


@app.command("reset", epilog=examples("inturn poll reset consignments"))
def reset(
    name: NameArgument,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Forget its items, too: each is then told as created."),
    ] = False,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read a source from its beginning again. What is as it was is no change."""
    session = Session(app, store, as_json)
    session.run(lambda store: reset_source(store, name, forget=forget))
    session.answer(
        {"source": name, "cursor": None, "forgotten": forget},
        Text(plain(f"Source {name!r} is read from its beginning with its next run.")),
    )


def _state(one: SourceView) -> str:
    """Return what is wrong with a source, if anything is."""
    if one.error is not None:
        return f"failing: {one_line(one.error)}"
    if one.walk == "held":
        return f"reconcile is held: {count(one.walk_missing, 'item')} would be deleted"
    if one.schedule is not None and one.schedule.paused_by is not None:
        return f"paused by {one.schedule.paused_by}"
    if not one.declared:
        return "no running worker declares it"
    return "" if one.succeeded_at is not None else "not read to its end yet"


def _walk(one: SourceView) -> str:
    if one.walk == "held":
        return (
            f"held: {count(one.walk_missing, 'item')} of {one.items:,} would be deleted. Look, "
            f"then `inturn poll reconcile {one.name} --force`."
        )
    if one.walk == "none":
        return ""
    ended = f", {time_text(one.walk_ended_at)}" if one.walk == "done" else ""
    return f"{one.walk}, {count(one.walk_swept, 'item')} deleted{ended}"


def _document(one: SourceView) -> dict[str, Any]:
    return msgspec.to_builtins(one)  # type: ignore[no-any-return]
