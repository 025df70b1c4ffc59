"""``inturn groups``: plan, apply, look at, pause and undo groups; retry and skip their steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.live import Live
from rich.text import Text

from inturn.cli.exits import ExitCode
from inturn.cli.groups_text import group_cells, plan_text, tree
from inturn.cli.options import (
    LIMIT_DEFAULT,
    AppOption,
    ByOption,
    CursorOption,
    JsonOption,
    LimitOption,
    StoreOption,
    examples,
    seconds_from,
)
from inturn.cli.session import Session
from inturn.cli.text import count, plain
from inturn.groups.builder import check_addresses
from inturn.groups.files import as_yaml, read_file, written
from inturn.groups.group import result_of
from inturn.groups.groups import Groups
from inturn.groups.model import NOT_UNDONE, Definition, GroupState, GroupView, StepView
from inturn.groups.plan import plan_of
from inturn.queue.app import App
from inturn.store.paging import Page

app = typer.Typer(
    help="Commands on nodes, in order, and undone when they fail.", no_args_is_help=True
)

Answer = TypeVar("Answer")

WATCH_SECONDS = 0.5

GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group's name (the newest), or its id.")
]
StepArgument = Annotated[str, typer.Argument(metavar="STEP", help="The step's name.")]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A group as YAML or JSON: group, nodes, steps.")
]
StateOption = Annotated[
    GroupState | None,
    typer.Option("--state", metavar="STATE", help=f"Only this state: {', '.join(GroupState)}."),
]
WaitOption = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="TIME",
        parser=seconds_from(0.0),
        help="Wait so long for its end; exit with 1 if that is not done.",
        show_default=False,
    ),
]
WholeOption = Annotated[bool, typer.Option("--all", help="Also what is finished, step by step.")]


@app.command("plan", epilog=examples("inturn groups plan move.yaml"))
def plan(
    file: FileArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a group would do, in which order, and how it would be undone. Stores nothing."""
    session = Session(app, store, as_json)
    found = read_file(file, session.app)
    known = found.nodes if session.app is None else session.app.groups.nodes | found.nodes
    check_addresses(found.definition, known)
    made = plan_of(found.definition.name, found.definition.steps)
    undeclared = sorted(made.nodes.keys() - known.keys())  # here; the store may know them
    document = msgspec.to_builtins(made) | {"undeclared": undeclared}
    session.answer(document, plan_text(made, undeclared))


@app.command("apply", epilog=examples("inturn groups apply move.yaml -A shop:app --wait 5m"))
def apply(
    file: FileArgument,
    wait: WaitOption = None,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a group whole, or refuse it before anything is stored."""
    session = Session(app, store, as_json)
    found = read_file(file, session.app)

    async def submit(groups: Groups) -> tuple[str, Sequence[str]]:
        id = await groups.submit(found.definition, nodes=found.nodes)
        unserved = await groups.unserved(found.definition.steps)
        if wait is not None:
            for said in unserved:
                typer.echo(plain(said), err=True)
            await result_of(groups, id, wait)
        return id, unserved

    id, unserved = _run(session, submit, makes_file=True)
    name = found.definition.name
    if wait is None:
        text = " ".join(
            [
                f"Group {name!r} is accepted: {count(len(found.definition.steps), 'step')}.",
                *unserved,
                f"Follow it: `inturn groups watch {quote(name)}`.",
            ]
        )
        session.answer({"group": name, "id": id, "unserved": [*unserved]}, Text(plain(text)))
        return
    _show(session, id, whole=False)


@app.command("list", epilog=examples("inturn groups list --state stuck"))
def list_(
    state: StateOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    cursor: CursorOption = None,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List groups, the newest first."""
    session = Session(app, store, as_json)

    async def read(groups: Groups) -> tuple[Page[GroupView], Any]:
        rows = await groups.list(state=state, before=cursor or "", rows_max=limit + 1)
        more = rows[limit - 1].id if len(rows) > limit else None
        return Page(rows=tuple(rows[:limit]), cursor=more), await groups.app.run(
            lambda store: store.now()
        )

    page, now = _run(session, read)
    session.page(
        "groups",
        page,
        document=group_document,
        heads=("group…", "state", ">percent", ">steps", ">age", "note¶"),
        cells=lambda group: group_cells(group, now),
        empty="No groups.",
    )


@app.command("show", epilog=examples("inturn groups show move-users-3"))
def show(
    group: GroupArgument,
    whole: WholeOption = False,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a group's steps: states, attempts, times, errors, answers. Finished waves are folded.

    Exits with 1 if the group is undone or stuck.
    """
    _show(Session(app, store, as_json), group, whole=whole)


@app.command("explain", epilog=examples("inturn groups explain move-users-3 switch"))
def explain(
    group: GroupArgument,
    step: StepArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a step is where it is, and what it waits for."""
    session = Session(app, store, as_json)
    said = _run(session, lambda groups: groups.explain(group, step))
    session.answer({"group": group, "step": step, "explanation": said}, Text(plain(said)))


@app.command("watch", epilog=examples("inturn groups watch move-users-3"))
def watch(
    group: GroupArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a group to its end. Exits with 1 if that is not done."""
    session = Session(app, store, as_json)

    async def follow(groups: Groups) -> str:
        id = (await groups.row(group)).id
        with Live(console=session.console, refresh_per_second=4, transient=False) as live:
            while True:
                view, steps = await groups.get(id), await groups.steps(id)
                if not as_json and session.console.is_terminal:
                    live.update(tree(view, steps, whole=False))
                if view.state in (GroupState.DONE, GroupState.UNDONE, GroupState.STUCK):
                    return id
                await asyncio.sleep(WATCH_SECONDS)

    id = _run(session, follow)
    _show(session, id, whole=False, is_silent=session.console.is_terminal and not as_json)


@app.command("pause", epilog=examples("inturn groups pause move-users-3"))
def pause(
    group: GroupArgument,
    by: ByOption,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Begin nothing more of a group, forward or back. What runs goes on."""
    _act(Session(app, store, as_json), group, lambda all: all.pause(group, by=by), "is paused")


@app.command("resume", epilog=examples("inturn groups resume move-users-3"))
def resume(
    group: GroupArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a paused group go on."""
    _act(Session(app, store, as_json), group, lambda all: all.resume(group), "goes on")


@app.command("undo", epilog=examples("inturn groups undo move-users-3 --why 'wrong shard'"))
def undo(
    group: GroupArgument,
    by: ByOption,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why; it is kept.")] = "",
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo a group that runs, or a done one unless an irreversible step has begun."""
    reason = f"{why} (asked by {by})" if why else f"asked by {by}"
    _act(
        Session(app, store, as_json),
        group,
        lambda all: all.undo(group, why=reason),
        f"is being undone. Follow it: `inturn groups watch {quote(group)}`",
    )


@app.command("retry", epilog=examples("inturn groups retry move-users-3 switch"))
def retry(
    group: GroupArgument,
    step: StepArgument,
    alone: Annotated[
        bool, typer.Option("--alone", help="Pause the group but for this step.")
    ] = False,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try a step again on which the group is stuck, with fresh attempts."""
    _act(
        Session(app, store, as_json),
        group,
        lambda all: all.retry(group, step, following=not alone),
        f"tries '{step}' again",
        paused=None if alone else f"will try '{step}' again when it is resumed",
    )


@app.command("skip", epilog=examples("inturn groups skip move-users-3 switch --why 'done by hand'"))
def skip(
    group: GroupArgument,
    step: StepArgument,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why; it is kept.")],
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Leave a step on which the group is stuck as it is, and go on without it."""
    _act(
        Session(app, store, as_json),
        group,
        lambda all: all.skip(group, step, why=why),
        f"goes on without '{step}'",
        paused=f"will go on without '{step}' when it is resumed",
    )


@app.command("export", epilog=examples("inturn groups export move-users-3"))
def export(
    group: GroupArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a group as a file that `inturn groups apply` reads."""
    session = Session(app, store, as_json)
    row, steps, nodes = _run(session, lambda groups: groups.rows_of(group))
    definition = Definition(name=row.name, steps=tuple(step.step for step in steps))
    document = written(definition, nodes)
    if as_json:
        session.answer(document, "")
    else:
        typer.echo(as_yaml(document), nl=False)


# What they share


def group_document(group: GroupView) -> dict[str, Any]:
    """Return a group as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(group)
    return found | {"percent": group.percent}


def step_document(step: StepView) -> dict[str, Any]:
    """Return a step as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(step)
    del found["group"]
    return found | {"seconds": step.seconds}


def _show(session: Session, group: str, *, whole: bool, is_silent: bool = False) -> None:
    async def read(groups: Groups) -> tuple[GroupView, list[StepView]]:
        id = (await groups.row(group)).id
        return await groups.get(id), list(await groups.steps(id))

    view, steps = _run(session, read)
    if not is_silent:
        document = group_document(view) | {
            "not_undone": [step.name for step in steps if step.state in NOT_UNDONE],
            "steps": [step_document(step) for step in steps],
        }
        session.answer(document, tree(view, steps, whole=whole))
    if view.state in (GroupState.UNDONE, GroupState.STUCK):
        raise typer.Exit(ExitCode.NO)


def _act(
    session: Session,
    group: str,
    verb: Callable[[Groups], Awaitable[None]],
    said: str,
    *,
    paused: str | None = None,
) -> None:
    """Act on a group. ``paused``: what to say in place of ``said`` if somebody paused the group."""

    async def act(groups: Groups) -> GroupView:
        await verb(groups)
        return await groups.get(group)

    view = _run(session, act)
    if paused is not None and view.paused_by is not None:
        said = f"is paused by {view.paused_by} and {paused}"
    session.answer(group_document(view), Text(plain(f"Group '{view.name}' {said}.")))


def _run(
    session: Session,
    verb: Callable[[Groups], Awaitable[Answer]],
    *,
    makes_file: bool = False,
) -> Answer:
    """Run a verb on the groups of the store that was named."""
    session.run(lambda store: store.now(), makes_file=makes_file)  # it says what is wrong with it
    app = App(session.url) if session.app is None else session.app
    if session.app is not None and session.named:
        app.use(session.named)

    async def opened() -> Answer:
        async with app:
            return await verb(app.extension("groups"))

    return asyncio.run(opened())
