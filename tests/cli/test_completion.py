"""Completion: a shell that was taught by ``--install-completion`` completes on Tab."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import COMMAND, INHERITED, Terminal

BASH = shutil.which("bash")
PROMPT = "ready> "

needs_bash = pytest.mark.skipif(BASH is None, reason="there is no bash")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of its own, with ``inturn`` as a program in it."""
    program = tmp_path / "bin" / "inturn"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    path = os.pathsep.join([str(home / "bin"), INHERITED["PATH"]])
    return {**INHERITED, "PATH": path, "HOME": str(home)}


def printed(home: Path, *command: str, **variables: str) -> str:
    """Run a command in that home, and return what it prints."""
    ran = subprocess.run(
        command,
        env=environment(home) | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout


def in_bash(home: Path, command: str) -> str:
    """Type a command into bash, which it finds by itself."""
    return printed(home, str(BASH), "-c", f"{command}; exit $?")


@needs_bash
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("inturn dea", "inturn dead "),
        ("inturn lanes pau", "inturn lanes pause "),
        ("inturn work --pro", "inturn work --processes "),
    ],
)
def test_tab_completes_commands_and_options_in_bash(
    home: Path, typed: str, completed: str, open_terminal: Callable[..., Terminal]
) -> None:
    assert "bash completion installed" in in_bash(home, "inturn --install-completion")
    startup = home / ".bashrc"
    startup.write_text(f"{startup.read_text()}\nPS1='{PROMPT}'\nbind 'set bell-style none'\n")
    shell = open_terminal(
        "--rcfile", str(startup), "-i", command=[str(BASH), "--noprofile"], **environment(home)
    )
    shell.read_until(PROMPT)
    shell.type(f"{typed}\t")
    shell.read_until(completed)


@needs_bash
def test_what_would_be_installed_is_shown(home: Path) -> None:
    script = in_bash(home, "inturn --show-completion")
    assert "complete -o default -F _inturn_completion inturn" in script
    assert not (home / ".bashrc").exists()


def test_zsh_is_told_how_to_ask_and_what_completes_a_word(home: Path) -> None:
    script = printed(home, "inturn", _INTURN_COMPLETE="source_zsh")
    assert script.lstrip().startswith("#compdef inturn")
    asked = {"_INTURN_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "inturn dea"}
    assert '"dead"' in printed(home, "inturn", **asked)
