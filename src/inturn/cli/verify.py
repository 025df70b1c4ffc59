"""``inturn verify``: run producers and workers, let things go wrong, and check every promise."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from inturn.cli.call import Call, command
from inturn.cli.exits import ExitCode, complain
from inturn.cli.options import flag, seconds_from
from inturn.cli.plain import plain
from inturn.model.errors import BadInput

if TYPE_CHECKING:
    # What runs workers is imported where it is needed, so that the other commands start fast.
    from inturn.verify.faults import Switch
    from inturn.verify.report import Report
    from inturn.verify.run import Progress, Wanted

JOBS_DEFAULT, SECONDS_DEFAULT = 2_000, 20.0  # if neither is said: most faults come in that time
SEED_MAX = 1_000_000
CHECK_TAKES = frozenset({"--check", "--json", "--debug"})

JobsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Submit at least so many.", show_default=False),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(1.0),
        help="Submit for at least so long. Without this and --jobs: 20 s, and 2,000 jobs.",
        show_default=False,
    ),
]
WorkersOption = Annotated[int, typer.Option(min=1, max=100, help="How many worker processes.")]
ProducersOption = Annotated[int, typer.Option(min=1, max=100, help="How many producer processes.")]
SeedOption = Annotated[
    int | None,
    typer.Option(help="The same jobs and faults as before, in the same order.", show_default=False),
]
FaultsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="NAME",
        help="Only this fault; repeatable. Else all that can be. none: none.",
        show_default=False,
    ),
]
EveryOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.05),
        help="How long between two faults, about.",
        show_default="1s",
    ),
]
KeepOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Keep the history here. Else it is kept only if a promise was broken.",
        show_default=False,
    ),
]
CheckOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Run nothing: check a history that was kept.",
        show_default=False,
    ),
]
StopOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stop-command",
        metavar="COMMAND",
        help="Stops the database server; one of several is drawn.",
        show_default=False,
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--start-command",
        metavar="COMMAND",
        help="Starts it again, and returns when it answers.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Make this a command of ``app``."""
    command(
        app,
        "verify",
        "inturn verify",
        "inturn verify --store postgresql://app@db.example/app --seconds 60",
        "inturn verify --fault kill-worker --fault stop-worker --seed 7",
        "inturn verify --check ./history",
    )(_verify)


def _verify(
    call: Call,
    context: typer.Context,
    jobs: JobsOption = None,
    seconds: SecondsOption = None,
    workers: WorkersOption = 3,
    producers: ProducersOption = 2,
    seed: SeedOption = None,
    fault: FaultsOption = None,
    every: EveryOption = 1.0,
    list_faults: Annotated[
        bool, flag("--list-faults", help="Say which faults there are, and run nothing.")
    ] = False,
    keep: KeepOption = None,
    check: CheckOption = None,
    stop_command: StopOption = None,
    start_command: StartOption = None,
) -> None:
    """Run producers and workers, let things go wrong, and check every promise.

    Without a store it makes one of its own. On yours it uses queues of its own, and leaves all
    others alone; leaves with 1 if a promise was not kept, and says how to see it again.
    """
    if list_faults:
        _list_faults(call)
    elif check is not None:
        from inturn.verify.report import report_of

        if idle := [name for name in _given(context) if name not in CHECK_TAKES]:
            raise BadInput(f"--check runs nothing, so that {', '.join(idle)} means nothing here.")
        _end(call, report_of(check), None)
    else:
        from inturn.verify.run import Wanted

        address = call.find_address()
        switch = _switch(stop_command, start_command)
        if address is not None:
            call.run(lambda store: store.now())  # it is there, has its tables, and answers
        if jobs is None and seconds is None:
            jobs, seconds = JOBS_DEFAULT, SECONDS_DEFAULT
        wanted = Wanted(
            store=None if address is None else address.url,
            seed=secrets.randbelow(SEED_MAX) if seed is None else seed,
            jobs=jobs,
            seconds=seconds,
            workers=workers,
            producers=producers,
            faults=_chosen(
                fault, "sqlite:" if address is None else address.url, switch, workers=workers
            ),
            gap_seconds=every,
            folder=keep.absolute() if keep is not None else None,
        )
        report = _run(wanted, switch)
        if keep is None and report.is_good and report.folder is not None:
            shutil.rmtree(report.folder, ignore_errors=True)
            report = msgspec.structs.replace(report, folder=None)
        shown = None if address is None else address.shown()
        _end(call, report, _again(wanted, shown, fault, stop_command or (), start_command))


def _given(context: typer.Context) -> Iterator[str]:
    """Yield the options that stand on the command line, and not those that have a default."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE":
            yield option.opts[0]


def _run(wanted: Wanted, switch: Switch | None) -> Report:
    """Run it, with a line of progress where a person looks on."""
    from inturn.verify.run import Verification

    console = Console(stderr=True, highlight=False)
    live = Live(console=console, transient=True, refresh_per_second=8)
    verification = Verification(wanted, switch=switch, shown=lambda now: live.update(_line(now)))
    try:
        with live if console.is_terminal else nullcontext():
            return asyncio.run(verification.run())
    except Exception:
        if verification.has_history:
            complain(
                f"the history of this run is in {verification.folder}.",
                f"To check it: inturn verify --check {shlex.quote(str(verification.folder))}",
            )
        raise


def _line(now: Progress) -> Text:
    return Text(
        f"{now.phase:<8} {now.seconds:4.0f} s  {now.accepted:,} accepted  "
        f"{now.unfinished:,} unfinished  {now.faults:,} faults  (Ctrl-C ends it)",
        no_wrap=True,
        overflow="ellipsis",
    )


def _end(call: Call, report: Report, again: str | None) -> None:
    """Print a report, and leave with what it comes to."""
    from inturn.verify.report import many

    document = msgspec.to_builtins(report) | {"is_good": report.is_good, "again": again}
    call.out.answer(document, plain("\n".join(report.lines())))
    if not report.is_good:
        sys.stdout.flush()
        where = f"The history is in {report.folder}." if report.folder is not None else ""
        hint = "" if again is None else f"Again, with the same seed: {again}"
        if report.violations:
            found = f"{many(len(report.violations), 'violation')}."
        elif report.failures:
            found = "some faults could not be made, so that this proves less than it was to."
        else:
            found = f"{report.missed} never came, so that this proves nothing about it."
            hint = "Let it last longer (--seconds), or let faults come more often (--every)."
        complain(f"{found} {where}".strip(), hint)
        raise typer.Exit(ExitCode.NO if report.violations else ExitCode.STORE)
    if report.is_interrupted and again is not None:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _again(
    wanted: Wanted,
    store: str | None,
    fault: list[str] | None,
    stops: Sequence[str],
    start: str | None,
) -> str:
    """Return the command that runs the same again."""
    words = ["inturn", "verify", "--seed", str(wanted.seed)]
    if store is not None:
        words += ["--store", store]
    if wanted.jobs is not None:
        words += ["--jobs", str(wanted.jobs)]
    if wanted.seconds is not None:
        words += ["--seconds", f"{wanted.seconds:g}"]
    words += ["--workers", str(wanted.workers), "--producers", str(wanted.producers)]
    words += ["--every", f"{wanted.gap_seconds:g}"]
    for name in fault or ():
        words += ["--fault", name]
    for stop in stops:
        words += ["--stop-command", stop]
    if start is not None:
        words += ["--start-command", start]
    return shlex.join(words)


def _chosen(
    names: list[str] | None, store: str, switch: Switch | None, *, workers: int
) -> tuple[str, ...]:
    """Return the faults that are wanted; refuse those that cannot be."""
    from inturn.verify.detour import server_of
    from inturn.verify.faults import KINDS, NAMES, is_possible

    if not names:
        return NAMES
    if names == ["none"]:
        return ()
    kinds = {kind.name: kind for kind in KINDS}
    if "none" in names:
        raise BadInput("--fault none means that nothing goes wrong: give no other fault with it.")
    for name in names:
        if name not in kinds:
            raise BadInput(f"there is no fault {name!r}. There are: {', '.join(NAMES)}.")
        if not kinds[name].is_for(store):
            raise BadInput(f"the fault {name!r} is for {kinds[name].store_name} only.")
    has_switch, has_server = switch is not None, server_of(store) is not None
    for name in names:
        if not is_possible(name, workers=workers, has_switch=has_switch, has_server=has_server):
            raise BadInput(f"the fault {name!r} needs {kinds[name].needs}.")
    return tuple(names)


def _switch(stops: list[str] | None, start: str | None) -> Switch | None:
    from inturn.verify.faults import CommandSwitch

    if not stops and start is None:
        return None
    if not stops or start is None:
        raise BadInput("--stop-command and --start-command belong together: give both.")
    return CommandSwitch(stops, start)


def _list_faults(call: Call) -> None:
    from inturn.verify.faults import KINDS

    document = {"faults": [msgspec.to_builtins(kind) for kind in KINDS]}
    lines = []
    for kind in KINDS:
        needs = f"needs {kind.needs}" if kind.needs is not None else ""
        where = "; ".join(filter(None, (kind.store_name, needs)))
        lines.append(f"{kind.name:<20} {kind.what}" + (f" ({where})" if where else ""))
    call.out.answer(document, "\n".join(lines))
