"""The ``inturn`` command: what it is made of, and how it starts and ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from inturn import __version__
from inturn.cli import dead, demo, jobs, lanes, queues, status, store, submit, verify, work, workers
from inturn.cli.exits import ExitCode, complain, told
from inturn.cli.help import Command, Group
from inturn.cli.options import DebugOption, flag
from inturn.cli.settings import VARIABLE, here, unknown_variables, work_defaults
from inturn.cli.streams import mend_streams

app = typer.Typer(
    name="inturn",
    cls=Group,
    no_args_is_help=True,
    epilog=(
        "Start:\n\n"
        "inturn store migrate --store sqlite:///work.db\n\n"
        "export INTURN_STORE=sqlite:///work.db\n\n"
        "inturn submit mail --key customer-7 && inturn status"
    ),
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command with the arguments of the shell."""
    mend_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command and return what to leave with."""
    try:
        return _run(arguments)
    except SystemExit as end:
        # What prints help leaves by itself, and with 1, when nobody reads it any more.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        _close_output()
        return ExitCode.PIPE_CLOSED


def _run(arguments: Sequence[str]) -> int:
    try:
        code = app(list(arguments), prog_name="inturn", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        complain("stopped at the question: nothing was done.")
        return ExitCode.INTERRUPTED
    except OSError as error:
        _close_output()
        if isinstance(error, BrokenPipeError):
            return ExitCode.PIPE_CLOSED
        complain(
            f"the answer could not be written: {error}.",
            "What was asked for may have been done all the same. Look before you ask again.",
        )
        return ExitCode.OUTPUT
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _misused(error, error.format_message())
    return int(code or ExitCode.OK)


def _misused(error: Exception, text: str) -> int:
    """Say what is wrong with the command line, and where to read how it should be."""
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(text, nl=bool(text))
        return ExitCode.USAGE
    context = getattr(error, "ctx", None)
    path = "inturn" if context is None else context.command_path
    text = text.replace(*_named(context, getattr(error, "param", None)))
    complain(_sentence(text), f"`{path} --help` shows how it is used.")
    return ExitCode.USAGE


def _named(context: Any, option: Any) -> tuple[str, str]:
    """Return what is said of an option's variable, and what to say: only who named the value."""
    variable = getattr(option, "envvar", None)
    source = None if variable is None else context.get_parameter_source(option.name)
    if source is None or source.name == "ENVIRONMENT":
        return "", ""
    named_by = " (in pyproject.toml)" if source.name == "DEFAULT_MAP" else ""
    return f" (env var: '{variable}')", named_by


def _sentence(text: str) -> str:
    """Return what a check of an option said, without the check's own name, as a sentence."""
    text = text.replace(": Value error, ", ": ")
    return text if text.endswith((".", "?")) else f"{text}."


def _close_output() -> None:
    """Let what is still to be written go nowhere, rather than into an error when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"inturn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        flag("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Durable jobs in turn, on SQLite or PostgreSQL."""
    for sentence in unknown_variables(os.environ, _variables(context)):
        complain(sentence)
    if context.invoked_subcommand == "work":
        with told(debug=False):
            context.default_map = {"work": work_defaults(here())}


def _variables(context: typer.Context) -> set[str]:
    """Return the variables that commands read."""
    commands = getattr(context.command, "commands", {}).values()
    options = (option for command in commands for option in command.params)
    return {VARIABLE, *(option.envvar for option in options if option.envvar)}


@app.command("demo", epilog="Example:\n\ninturn demo", cls=Command)
def _demo(
    as_json: Annotated[bool, flag("--json", help="Print only the summary, as JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Show what inturn does, in a few seconds, and check it. It uses a store of its own."""
    with told(debug=debug):
        demo.run(as_json=as_json)


work.add_to(app)
status.add_to(app)
app.add_typer(jobs.app, name="jobs")
app.add_typer(lanes.app, name="lanes")
app.add_typer(dead.app, name="dead")
app.add_typer(queues.app, name="queues")
workers.add_to(app)
app.add_typer(store.app, name="store")
submit.add_to(app)
verify.add_to(app)

if __name__ == "__main__":
    main()
