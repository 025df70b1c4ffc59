"""A group of commands as an application attaches one."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True)


@app.command("hello")
def hello(name: str) -> None:
    """Greet somebody."""
    typer.echo(f"Hello, {name}!")


@app.command("bye")
def bye() -> None:
    """Take leave."""
    typer.echo("Bye.")
