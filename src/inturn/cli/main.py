"""The ``inturn`` command: its parts, and how it starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from inturn import __version__
from inturn.cli import jobs, lanes, queues, status, store, submit, work
from inturn.cli.exits import explained
from inturn.cli.options import JsonOption, examples
from inturn.cli.session import on_store
from inturn.model.errors import InturnError

ATTACHED = {  # groups of commands of applications: each is a module here, imported when it is used
    "groups": "Commands on nodes, in order, and undone when they fail.",
    "schedules": "Jobs that are submitted at set times.",
    "poll": "Sources whose changes are fetched page by page.",
}

app = typer.Typer(
    name="inturn",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "inturn demo",
        "inturn work shop:app",
        "inturn status -A shop:app",
    ),
)


def main() -> None:
    """Run the command with the arguments of the shell."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    try:
        app(list(arguments), prog_name="inturn")
    except InturnError as error:
        return explained(error)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"inturn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Durable jobs, in order for each key, on SQLite or PostgreSQL."""


app.command("work", epilog=work.EXAMPLES)(work.work)
on_store(app, "status", *status.EXAMPLES)(status.status)
on_store(app, "workers", "inturn workers -A shop:app")(status.workers)
on_store(app, "submit", *submit.EXAMPLES)(submit.submit)
app.add_typer(jobs.app, name="jobs")
app.add_typer(jobs.dead, name="dead")
app.add_typer(lanes.app, name="lanes")
app.add_typer(queues.app, name="queues")
app.add_typer(store.app, name="store")


def attach(app: typer.Typer, name: str, says: str, module: str) -> None:
    """Add a group of commands, the ``app`` of a module that is imported when one is called."""

    class AttachedGroup(TyperGroup):
        def _load(self) -> None:
            if not self.commands:
                attached = import_module(module).app
                attached.rich_markup_mode = app.rich_markup_mode  # helps look alike
                self.commands = typer.main.get_group(attached).commands

        def list_commands(self, ctx: Any) -> list[str]:
            self._load()
            return super().list_commands(ctx)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            self._load()
            return super().get_command(ctx, cmd_name)

    app.add_typer(typer.Typer(cls=AttachedGroup, help=says, no_args_is_help=True), name=name)


for _name, _says in ATTACHED.items():
    if find_spec(f"inturn.cli.{_name}") is not None:
        attach(app, _name, _says, f"inturn.cli.{_name}")


@app.command("demo", epilog=examples("inturn demo"))
def _demo(as_json: JsonOption = False) -> None:
    """See failures, retries and a killed worker, and the order kept. Takes a few seconds."""
    from inturn.demo.play import run

    run(as_json=as_json)


if __name__ == "__main__":
    main()
