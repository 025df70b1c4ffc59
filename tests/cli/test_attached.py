"""Groups of commands that applications attach: imported when one of them is called."""

from __future__ import annotations

import sys

import pytest
import typer
from typer.testing import CliRunner

from inturn.cli.main import attach

MODULE = "tests.cli.sample_commands"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    command = typer.Typer()
    command.command("other")(lambda: None)
    attach(command, "sample", "Greet people.", MODULE)
    return command


def test_help_shows_an_attached_group_without_importing_it(command: typer.Typer) -> None:
    shown = CliRunner().invoke(command, ["--help"])
    assert "Greet people." in shown.output
    assert MODULE not in sys.modules


def test_an_attached_command_runs_and_its_group_says_what_there_is(command: typer.Typer) -> None:
    assert CliRunner().invoke(command, ["sample", "hello", "Ada"]).output == "Hello, Ada!\n"
    for arguments in (["sample"], ["sample", "--help"]):
        shown = CliRunner().invoke(command, arguments).output
        assert "Greet somebody." in shown
        assert "Take leave." in shown
    assert CliRunner().invoke(command, ["sample", "hullo"]).exit_code == 2
