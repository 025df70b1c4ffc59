"""``inturn work``: run the jobs of an app, in this process or in several."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from inturn.cli.call import Call, command
from inturn.cli.exits import told
from inturn.cli.journal import Journal
from inturn.cli.options import flag, seconds_from
from inturn.cli.settings import VARIABLE, Address, work_home
from inturn.model import bounds
from inturn.model.errors import BadInput
from inturn.store.address import anchored

if TYPE_CHECKING:
    # What runs workers is imported where it is needed, so that the other commands start fast.
    from inturn.worker.settings import WorkSettings

PROCESSES_MAX = 1_000
MEMBER = (sys.executable, "-m", "inturn.cli.member")

TargetArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODULE:APP",
        envvar="INTURN_APP",
        help="Where the App is. MODULE alone will do if there is one App in it.",
        show_default=False,
    ),
]
QueuesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        envvar="INTURN_QUEUES",
        help="Only from this queue; repeatable. Else all of the app's jobs.",
        show_default=False,
    ),
]
ConcurrencyOption = Annotated[
    int,
    typer.Option(
        "--concurrency",
        "-c",
        min=1,
        max=bounds.SLOTS_MAX,
        envvar="INTURN_CONCURRENCY",
        help="How many lanes, or jobs without a key, run at once in a process.",
    ),
]
LeaseOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.001, bounds.LEASE_SECONDS_MAX),
        envvar="INTURN_LEASE",
        help="How long after a worker died its jobs stay with it.",
        show_default="30s",
    ),
]
SweepOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.001, bounds.LEASE_SECONDS_MAX),
        envvar="INTURN_SWEEP",
        help="How often to look for jobs of dead workers.",
        show_default="10s",
    ),
]
ProcessesOption = Annotated[
    str,
    typer.Option(
        metavar="N|auto",
        envvar="INTURN_PROCESSES",
        help="How many processes; auto: one for each core.",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        envvar="INTURN_WORKER_NAME",
        help="The worker's name. Else host, process and a random part.",
        show_default=False,
    ),
]
HealthFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        envvar="INTURN_HEALTH_FILE",
        help="Touch this file every second while all is well.",
        show_default=False,
    ),
]
HealthPortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65_535,
        envvar="INTURN_HEALTH_PORT",
        help="Answer GET /healthz on this port.",
        show_default=False,
    ),
]
HealthHostOption = Annotated[
    str, typer.Option(envvar="INTURN_HEALTH_HOST", help="Where --health-port listens.")
]
DrainOption = Annotated[
    bool,
    flag("--drain", help="Stop when nothing is left to run now."),
]


class _Desk(msgspec.Struct, frozen=True):
    """Where supervisors ask for health, if anywhere."""

    file: Path | None
    port: int | None
    host: str


def add_to(app: typer.Typer) -> None:
    """Make this a command of ``app``."""
    command(
        app,
        "work",
        "inturn work shop:app",
        "inturn work shop:app --queue mail --concurrency 20",
        "inturn work shop:app --processes 4 --health-port 8080",
        "inturn work shop:app --drain",
        store="The store. Else INTURN_STORE, else pyproject.toml, else the app's own.",
        json="Print each event as a JSON document on a line.",
    )(_work)


def _work(
    call: Call,
    context: typer.Context,
    target: TargetArgument = None,
    queue: QueuesOption = None,
    concurrency: ConcurrencyOption = 100,
    lease: LeaseOption = bounds.LEASE_SECONDS_DEFAULT,
    sweep: SweepOption = 10.0,
    processes: ProcessesOption = "1",
    name: NameOption = None,
    health_file: HealthFileOption = None,
    health_port: HealthPortOption = None,
    health_host: HealthHostOption = "127.0.0.1",
    drain: DrainOption = False,
) -> None:
    """Run the jobs of an app, until SIGTERM, SIGHUP or Ctrl-C; finish what runs; leave with 0.

    A second signal gives back what runs and stops at once.
    """
    if target is None:
        raise BadInput(
            "whose jobs? Name the module and the App in it, as in `inturn work shop:app`, set "
            'INTURN_APP, or write `app = "shop:app"` under [tool.inturn.work] in pyproject.toml.'
        )
    from inturn.worker.settings import WorkSettings

    address = _named_store(call)
    settings = WorkSettings(
        target=target,
        folder=str(_home(call, context)),
        name=name or _name(),
        is_named=bool(name),
        store=None if address is None else address.url,
        store_named_by="" if address is None else address.source,
        queues=_queues(queue, context),
        concurrency=concurrency,
        lease_seconds=lease,
        sweep_seconds=sweep,
        until_empty=drain,
    )
    # A handler may leave the folder that it is named from.
    health_file = None if health_file is None else call.folder / health_file
    desk = _Desk(health_file, health_port, health_host)
    number = _number(processes)
    if number == 1:
        _alone(call, settings, desk)
    elif code := asyncio.run(_crew(call, settings, desk, number)):
        raise typer.Exit(code)


def _alone(call: Call, settings: WorkSettings, desk: _Desk) -> None:
    """Work in this process."""
    from inturn.worker.health import HealthDesk, HealthThread
    from inturn.worker.shift import Shift
    from inturn.worker.signals import SignalThread

    journal = Journal(as_json=call.out.as_json, keeps_output=True)
    shift = Shift(settings, journal)
    journal.open_log()
    code = 0
    try:
        with told(debug=call.debug), contextlib.ExitStack() as stack:
            if desk.file is not None or desk.port is not None:
                health = HealthDesk(shift.worker.vitals.health, **msgspec.structs.asdict(desk))
                stack.enter_context(HealthThread(health))
            stack.enter_context(SignalThread(shift.signalled))
            shift.run()
    except typer.Exit as end:
        code = end.exit_code
    shift.leave(code)
    journal.close()
    if code:
        raise typer.Exit(code)


async def _crew(call: Call, settings: WorkSettings, desk: _Desk, processes: int) -> int:
    """Work in several processes, of which this is the parent."""
    from inturn.worker.crew import Crew
    from inturn.worker.health import HealthDesk

    journal = Journal(as_json=call.out.as_json)
    journal.open_log()
    crew = Crew(
        settings,
        processes=processes,
        command=MEMBER,
        listener=journal,
        as_json=call.out.as_json,
        debug=call.debug,
    )
    async with HealthDesk(crew.health, **msgspec.structs.asdict(desk)).open():
        return await crew.run()


def _home(call: Call, context: typer.Context) -> Path:
    """Return the folder to import the app from: if a pyproject.toml names it, that one's own."""
    is_of_pyproject = _source(context, "target") == "DEFAULT_MAP"
    return work_home(call.folder) if is_of_pyproject else call.folder


def _queues(named: list[str] | None, context: typer.Context) -> tuple[str, ...] | None:
    """Return the queues that are named; in the variable commas, too, are between them."""
    found = named or []
    if _source(context, "queue") == "ENVIRONMENT":
        found = [name for text in found for name in text.split(",") if name]
    return tuple(found) or None


def _source(context: typer.Context, parameter: str) -> str | None:
    """Return where the value of a parameter comes from."""
    source = context.get_parameter_source(parameter)
    return None if source is None else source.name


def _named_store(call: Call) -> Address | None:
    """Return the store that is named anywhere but in the app.

    Every App without one has it from the variable, in this process and in those that it starts.
    """
    address = call.find_address()
    if address is not None:
        os.environ[VARIABLE] = anchored(address.url)
    return address


def _name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


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
