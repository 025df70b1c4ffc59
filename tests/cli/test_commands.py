"""The commands as a whole: each teaches, is documented, and is there wherever a text names it."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from inturn.cli.exits import ExitCode
from inturn.cli.main import app, run
from inturn.model.duration import parse_duration

ROOT = Path(__file__).parents[2]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PAGE = ROOT / "docs/reference/cli.md"

SHARED = {"--store", "--json", "--debug", "--help"}


def commands() -> dict[str, Any]:
    """Return every command by its path: ``lanes retry``."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, (*path, name))
        if not hasattr(command, "commands"):
            yield " ".join(path), command

    return dict(walk(get_command(app), ()))


COMMANDS = commands()
GROUPS = {path.split()[0] for path in COMMANDS if " " in path}


def options(path: str) -> set[str]:
    return {"--help"} | {
        name
        for parameter in COMMANDS[path].params
        for name in parameter.opts
        if name.startswith("--")
    }


def examples(path: str) -> list[str]:
    return [line for line in (COMMANDS[path].epilog or "").split("\n\n") if "inturn" in line]


def named(text: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each command that a text names between backticks, with the options it is given."""
    for call in re.findall(r"`inturn ([a-z][^`]*)`", text):
        first, *rest = call.split()
        given = {word for word in rest if re.fullmatch(r"--[a-z][a-z-]*", word)}
        if first in GROUPS and rest:
            yield from ((f"{first} {verb}", given) for verb in rest[0].split("|"))
        else:
            yield first, given


def faults(text: str) -> Iterator[str]:
    """Say which commands, or options of them, a text names that are not there."""
    for path, given in named(text):
        if path in GROUPS:
            continue
        if path not in COMMANDS:
            yield f"`inturn {path}` is named and is no command"
        elif unknown := given - options(path):
            yield f"`inturn {path}` is named with {unknown}, which it does not take"


def texts_of(source: str) -> Iterator[str]:
    """Yield every text in some Python, with … for what is filled in when it runs."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )


def sections(text: str) -> dict[str, str]:
    """Return the sections of the page by the command that heads them."""
    parts = re.split(r"^### `inturn ([^`]+)`$", text, flags=re.MULTILINE)
    bodies = (re.split(r"^## ", body, flags=re.MULTILINE)[0] for body in parts[2::2])
    return dict(zip(parts[1::2], bodies, strict=True))


def undocumented(text: str) -> Iterator[str]:
    """Say which commands and options the page leaves out, and which it makes up."""
    found = sections(text)
    yield from (f"{path} has no section" for path in sorted(set(COMMANDS) - set(found)))
    yield from (f"{path} has one and is no command" for path in sorted(set(found) - set(COMMANDS)))
    for path in sorted(set(found) & set(COMMANDS)):
        said = set(re.findall(r"(--[a-z][a-z-]*)", found[path]))
        yield from (f"{path} {one} is left out" for one in options(path) - SHARED - said)
        yield from (f"{path} {one} is made up" for one in said - options(path))
        if f"inturn {path}" not in found[path]:
            yield f"{path} has no example"


def test_there_are_the_commands_that_were_promised() -> None:
    assert set(COMMANDS) == {
        "demo",
        "verify",
        "work",
        "status",
        "submit",
        "workers",
        "stats",
        *(f"jobs {verb}" for verb in ("list", "show", "explain", "cancel")),
        *(
            f"lanes {verb}"
            for verb in ("list", "explain", "pause", "resume", "retry", "skip", "drop")
        ),
        *(f"dead {verb}" for verb in ("list", "show", "retry", "drop")),
        *(
            f"queues {verb}"
            for verb in ("list", "pause", "resume", "configure", "open-gate", "advance-gate")
        ),
        *(f"store {verb}" for verb in ("migrate", "check", "prune", "info")),
    }


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_teaches_with_an_example_that_can_be_typed(path: str) -> None:
    assert COMMANDS[path].help
    assert examples(path)
    for example in examples(path):
        program, *words = shlex.split(example)
        assert program == "inturn"
        assert words[: len(path.split())] == path.split()
        arguments = words[len(path.split()) :]
        with COMMANDS[path].make_context(path, arguments):
            pass  # whatever could not be read would have been raised
        assert len(example) <= 78, "it would wrap on a terminal of 80 columns"


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_takes_what_every_command_takes(path: str) -> None:
    of_its_own = {"--store"} if path == "demo" else set()
    assert SHARED - options(path) == of_its_own


@pytest.mark.parametrize("path", COMMANDS)
def test_a_flag_is_not_shown_as_if_it_took_a_value(path: str) -> None:
    flags = [one for one in COMMANDS[path].params if getattr(one, "is_flag", False)]
    assert [one.name for one in flags if one.metavar != ""] == []


@pytest.mark.parametrize("path", ["", *sorted(GROUPS), *COMMANDS])
def test_no_flag_is_shown_with_a_type(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "bool" not in shown.lower()


@pytest.mark.parametrize("path", SOURCE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_that_the_source_names_is_there(path: Path) -> None:
    for text in texts_of(path.read_text(encoding="utf-8")):
        assert not list(faults(text))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_that_a_page_names_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\|", "|")
    assert not list(faults(re.sub(r"```.*?```", "", text, flags=re.DOTALL)))


def test_the_source_names_commands() -> None:
    found = {
        path
        for file in SOURCE
        for text in texts_of(file.read_text(encoding="utf-8"))
        for path, _ in named(text)
    }
    assert {"store migrate", "lanes explain", "lanes retry", "dead retry", "jobs list"} <= found


@pytest.mark.parametrize(
    "text",
    [
        "look with `inturn lanes describe`",
        "`inturn lanes retry|skip|lose`",
        "`inturn nonsense`",
        "`inturn store migrate --force`",
        "`inturn dead retry … --queues x`",
    ],
)
def test_a_command_that_is_not_there_is_caught(text: str) -> None:
    assert list(faults(text))
    assert [found for text in texts_of(f"x = {text!r}") for found in faults(text)]
    filled_in = f"x = f{text.replace('…', '{job}')!r}"
    assert [found for text in texts_of(filled_in) for found in faults(text)]


def test_the_page_describes_every_command_and_option() -> None:
    assert not list(undocumented(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("### `inturn jobs explain`", "### `inturn jobs clarify`"),
        ("`--keep-done-seconds`", "how long"),
        ("`--watch` refreshes", "`--watch` and `--bell` refresh"),
        ("    inturn workers\n", ""),
    ],
)
def test_a_page_that_falls_behind_is_caught(old: str, new: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert old in text
    assert list(undocumented(text.replace(old, new)))


def test_the_page_lists_every_exit_code() -> None:
    rows = re.findall(r"^\| `(\d+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(row) for row in rows] == [int(code) for code in ExitCode]


def test_help_of_prune_says_who_need_not_run_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["store", "prune", "--help"]) == 0
    assert "Workers do it by themselves" in capsys.readouterr().out


def test_help_shows_lengths_of_time_as_they_are_typed() -> None:
    shown = []
    for path, command in COMMANDS.items():
        for option in command.params:
            if option.metavar == "TIME" and option.default is not None:
                assert isinstance(option.show_default, str), f"{path} {option.opts[0]}"
                assert parse_duration(option.show_default) == option.default
                shown.append(option.opts[0])
    assert {"--lease", "--delay", "--dedupe-seconds", "--every"} <= set(shown)
