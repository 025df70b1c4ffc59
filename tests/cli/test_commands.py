"""The commands as a whole: their helps fit and teach, and a command that a text names exists."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from inturn.cli.main import app, run

ROOT = Path(__file__).parents[2]


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        yield from walk(command.get_command(None, name), (*path, name))


COMMANDS = dict(walk(get_command(app)))
GROUPS = {path.split()[0] for path in COMMANDS if " " in path}


def options(path: str) -> set[str]:
    return {"--help"} | {name for one in COMMANDS[path].params for name in one.opts}


def examples(path: str) -> list[str]:
    epilog = COMMANDS[path].epilog or ""
    return [line.strip() for line in epilog.splitlines() if "inturn" in line]


def faults(text: str, *, is_whole: bool = False) -> Iterator[str]:
    """Name each command between backticks that cannot be typed as it stands.

    One without any argument may be just a name, unless the text ``is_whole``, as messages are.
    """
    for call in re.findall(r"`inturn ([a-z][^`]*)`", text):
        first, *rest = call.split()
        group = first in GROUPS and bool(rest)
        paths = [f"{first} {verb}" for verb in rest[0].split("|")] if group else [first]
        arguments = shlex.split(call)[1 + group :]
        for path in paths:
            if path in GROUPS:
                continue
            if path not in COMMANDS:
                yield f"`inturn {path}` is not a command"
            elif "…" in call:  # which may stand for several words
                yield from (
                    f"`inturn {path}` has no {option}"
                    for option in set(re.findall(r"(?<!\S)--[a-z][a-z-]*", call)) - options(path)
                )
            elif is_whole or arguments:
                try:
                    COMMANDS[path].make_context(path, list(arguments))
                except typer.Exit:
                    pass  # --help
                except typer.TyperException as error:
                    lacks = type(error).__name__ == "MissingParameter"
                    if lacks or not isinstance(error, typer.BadParameter):  # of a placeholder
                        yield f"`inturn {call}`: {type(error).__name__} {error}"


def texts_of(source: str) -> Iterator[str]:
    """Return the texts of a module, but its docstrings: they name commands to who reads on."""
    tree = ast.parse(source)
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values
            )


def test_the_commands_are_these() -> None:
    assert set(COMMANDS) == {
        "work", "status", "workers", "submit", "demo",
        *(f"jobs {verb}" for verb in ("list", "show", "explain", "cancel", "retry", "drop")),
        *(f"dead {verb}" for verb in ("list", "retry", "drop")),
        *(f"lanes {verb}" for verb in ("list", "pause", "resume", "retry", "skip", "drop")),
        *(f"queues {verb}" for verb in ("list", "set", "drop", "pause", "resume", "open-gate")),
        *(f"store {verb}" for verb in ("migrate", "check", "prune")),
        *(f"schedules {verb}" for verb in ("list", "run", "pause", "resume")),
        *(f"poll {verb}" for verb in ("list", "status", "run", "reconcile", "reset")),
        *(f"groups {verb}" for verb in ("plan", "apply", "list", "show", "explain", "watch")),
        *(f"groups {verb}" for verb in ("pause", "resume", "undo", "retry", "skip", "export")),
    }  # fmt: skip


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_has_an_example_that_can_be_typed(path: str) -> None:
    assert examples(path)
    for example in examples(path):
        program, *words = shlex.split(example)
        assert (program, words[: len(path.split())]) == ("inturn", path.split())
        with COMMANDS[path].make_context(path, words[len(path.split()) :]):
            pass  # what could not be parsed would have raised


@pytest.mark.parametrize("path", sorted(set(COMMANDS) - {"demo"}))
def test_a_command_takes_an_app_or_a_store(path: str) -> None:
    assert {"--app", "-A", "--store", "--json"} <= options(path)


@pytest.mark.parametrize("path", ["", *sorted(GROUPS), *COMMANDS])
def test_a_help_fits_a_screen(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert run([*path.split(), "-h"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 45
    assert lines[0].startswith("Usage: inturn "), "plain text, without boxes"


def test_every_command_that_source_or_docs_name_exists() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in texts_of(path.read_text(encoding="utf-8"))
        for fault in faults(text, is_whole=True)
    ]
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        if path.name != "CHANGELOG.md":
            text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            found += [f"{path.relative_to(ROOT)}: {fault}" for fault in faults(text)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "`inturn lanes describe`",
        "`inturn lanes retry|lose`",
        "`inturn store migrate --force`",
        "`inturn queues drop --all`",
    ],
)
def test_a_command_that_does_not_exist_is_caught(text: str) -> None:
    assert list(faults(text))


@pytest.mark.parametrize("name", ["cli", "api"])
def test_the_reference_is_what_the_program_says(name: str) -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate.py"))
    page = (ROOT / f"docs/reference/{name}.md").read_text(encoding="utf-8")
    assert generate[f"{name}_page"]() == page, "run `python docs/generate.py`"
