"""The ``inturn`` command: what it is made of, and how it starts."""

from typing import Annotated

import typer

from inturn import __version__
from inturn.cli import demo

app = typer.Typer(
    name="inturn",
    help="Durable jobs in turn, on SQLite or PostgreSQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command with the arguments of the shell."""
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"inturn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Durable jobs in turn, on SQLite or PostgreSQL."""


@app.command("demo")
def _demo(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the summary, as JSON.")
    ] = False,
) -> None:
    """Show what inturn does, in a few seconds, and check it."""
    demo.run(as_json=as_json)
