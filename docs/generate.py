"""Write the reference pages that come from the program itself: ``python docs/generate.py``."""

from __future__ import annotations

from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from inturn.cli.main import app

CLI = Path(__file__).parent / "reference" / "cli.md"

INTRODUCTION = """# The command

Every command says which store it is for with `--app MODULE:APP` (or the variable `INTURN_APP`):
the store of that App; or with `--store URL` (or `INTURN_STORE`), which comes first if both are
given. Jobs are named by the last 8 characters of their id, as the lists show them, or by the
whole id. `--json` prints one document, whose fields [do not change](json.md).

A command exits with 0 when it did what was asked; 1 when there is no such thing, when it is too
late, or when a check found a problem; 2 when the command line or a payload is wrong; 3 when the
store cannot be used; 4 when a queue is full or the store busy, and the same command may succeed
later.
"""


def cli_page() -> str:
    """Return the page about the command: the help of each part of it."""
    parts = [INTRODUCTION]
    for path in _paths(get_command(app)):
        words = path.split()
        help_text = CliRunner(env={"TERMINAL_WIDTH": "80", "COLUMNS": "80"}).invoke(
            app, [*words, "--help"], prog_name="inturn"
        )
        assert help_text.exit_code == 0, help_text.output
        parts.append(f"## `inturn {path}`\n\n```text\n{help_text.output.strip()}\n```\n")
    return "\n".join(parts)


def _paths(command: object, path: str = "") -> list[str]:
    """Return the commands that do something, in the order of the help."""
    below = getattr(command, "commands", None)
    if below is None:
        return [path]
    return [one for name in below for one in _paths(below[name], f"{path} {name}".strip())]


if __name__ == "__main__":
    CLI.write_text(cli_page(), encoding="utf-8")
