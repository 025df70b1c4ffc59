"""``inturn work``: run the jobs of an app, in this process or in several."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from inturn.cli.exits import explained
from inturn.cli.journal import Journal
from inturn.cli.options import StoreOption, app_option, examples, seconds_from
from inturn.model import bounds
from inturn.model.errors import BadInput, InturnError
from inturn.store.address import anchored

if TYPE_CHECKING:
    # What runs workers is imported where it is needed, so that the other commands start fast.
    from inturn.worker.settings import WorkSettings

PROCESSES_MAX = 1_000
MEMBER = (sys.executable, "-m", "inturn.cli.member")
EXAMPLES = examples(
    "inturn work shop:app",
    "inturn work shop:app --queue mail -c 20",
    "inturn work shop:app --node pg1",
    "inturn work shop:app --processes 4 --health-port 8080",
    "inturn work shop:app --drain",
)
_MORE = "Less often needed"

TargetArgument = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:APP", help="The App. MODULE is enough if it has one App."),
]
AppToRunOption = Annotated[str | None, app_option("The App to run, where no MODULE:APP is given.")]
QueuesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        metavar="QUEUE",
        envvar="INTURN_QUEUES",
        help="Only this queue of the app's; repeatable. In the variable: separated by spaces.",
    ),
]
NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NAME",
        envvar="INTURN_NODES",
        help="Also serve this node, even a local one; repeatable.",
    ),
]
ConcurrencyOption = Annotated[
    int,
    typer.Option(
        "--concurrency",
        "-c",
        min=1,
        max=bounds.SLOTS_MAX,
        metavar="N",
        envvar="INTURN_CONCURRENCY",
        help="Jobs to run at once in a process.",
    ),
]
ProcessesOption = Annotated[
    str,
    typer.Option(
        metavar="N|auto",
        envvar="INTURN_PROCESSES",
        help="Processes; auto is one for each core.",
    ),
]
DrainOption = Annotated[bool, typer.Option("--drain", help="Stop when no job is ready.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log each job that is done, not a count.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")]
LeaseOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.001, bounds.LEASE_SECONDS_MAX),
        envvar="INTURN_LEASE",
        help="Silence before a worker's jobs go to another (30s).",
        show_default=False,
        rich_help_panel=_MORE,
    ),
]
SweepOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.001, bounds.LEASE_SECONDS_MAX),
        envvar="INTURN_SWEEP",
        help="How often to look for jobs of dead workers (10s).",
        show_default=False,
        rich_help_panel=_MORE,
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        envvar="INTURN_WORKER_NAME",
        help="The worker's name. Two workers need two names.",
        rich_help_panel=_MORE,
    ),
]
HealthFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        envvar="INTURN_HEALTH_FILE",
        help="Touch this file every second while healthy.",
        rich_help_panel=_MORE,
    ),
]
HealthPortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65_535,
        metavar="PORT",
        envvar="INTURN_HEALTH_PORT",
        help="Answer GET /healthz here.",
        rich_help_panel=_MORE,
    ),
]
HealthHostOption = Annotated[
    str,
    typer.Option(
        metavar="HOST",
        envvar="INTURN_HEALTH_HOST",
        help="Address of --health-port.",
        rich_help_panel=_MORE,
    ),
]


class _Desk(msgspec.Struct, frozen=True):
    """Where supervisors ask for health, if anywhere."""

    file: Path | None
    port: int | None
    host: str


def work(
    context: typer.Context,
    target: TargetArgument = None,
    queue: QueuesOption = None,
    node: NodesOption = None,
    concurrency: ConcurrencyOption = 100,
    processes: ProcessesOption = "1",
    drain: DrainOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
    lease: LeaseOption = bounds.LEASE_SECONDS_DEFAULT,
    sweep: SweepOption = 10.0,
    name: NameOption = None,
    health_file: HealthFileOption = None,
    health_port: HealthPortOption = None,
    health_host: HealthHostOption = "127.0.0.1",
    app: AppToRunOption = None,
    store: StoreOption = None,
) -> None:
    """Run a worker. Ctrl-C finishes running jobs and exits; press it again to stop at once."""
    if target and app and target != app and _source(context, "app") != "ENVIRONMENT":
        raise BadInput(f"two Apps given, {target} and -A {app}. Leave one out.")
    target = target or app
    if target is None:
        raise BadInput("no App given. Usage: inturn work MODULE:APP")
    from inturn.worker.settings import WorkSettings

    if store:
        # An App without a store of its own has it from here, in processes that it starts, too.
        os.environ["INTURN_STORE"] = anchored(store)
    settings = WorkSettings(
        target=target,
        folder=str(Path.cwd()),
        name=name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}",
        store=store or None,
        store_named_by=_named_by(context) if store else "",
        queues=tuple(queue) if queue else None,
        nodes=tuple(node or ()),
        concurrency=concurrency,
        lease_seconds=lease,
        sweep_seconds=sweep,
        drain=drain,
        verbose=verbose,
    )
    # A handler may change the working directory.
    health_file = None if health_file is None else health_file.absolute()
    desk = _Desk(health_file, health_port, health_host)
    number = _number(processes)
    if number == 1:
        _alone(settings, desk, as_json=as_json)
    elif code := asyncio.run(_supervise(settings, desk, number, as_json=as_json)):
        raise typer.Exit(code)


def _alone(settings: WorkSettings, desk: _Desk, *, as_json: bool) -> None:
    """Work in this process."""
    from inturn.worker.work_process import WorkProcess

    journal = Journal(as_json=as_json, keeps_output=True)
    process = WorkProcess(settings, journal)
    journal.open_log()
    code = 0
    try:
        if desk.file is not None or desk.port is not None:
            process.worker.serve_health(**msgspec.structs.asdict(desk))
        process.run()
    except InturnError as error:
        code = explained(error)
    process.leave(code)
    journal.close()
    if code:
        raise typer.Exit(code)


async def _supervise(settings: WorkSettings, desk: _Desk, processes: int, *, as_json: bool) -> int:
    """Work in several processes, of which this is the parent."""
    from inturn.worker.health import HealthServer
    from inturn.worker.supervisor import Supervisor

    journal = Journal(as_json=as_json)
    journal.open_log()
    supervisor = Supervisor(
        settings, processes=processes, command=MEMBER, listener=journal, as_json=as_json
    )
    async with HealthServer(supervisor, **msgspec.structs.asdict(desk)).open():
        return await supervisor.run()


def _named_by(context: typer.Context) -> str:
    """Return what names the store: the flag or the variable."""
    return "INTURN_STORE" if _source(context, "store") == "ENVIRONMENT" else "--store"


def _source(context: typer.Context, option: str) -> str | None:
    """Return where an option comes from: COMMANDLINE, ENVIRONMENT, …"""
    source = context.get_parameter_source(option)
    return None if source is None else source.name


def _number(processes: str) -> int:
    if processes == "auto":
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if not processes.isdecimal() or not 1 <= int(processes) <= PROCESSES_MAX:
        raise BadInput(
            f"--processes must be a number from 1 to {PROCESSES_MAX:,}, or auto, not {processes!r}."
        )
    return int(processes)
