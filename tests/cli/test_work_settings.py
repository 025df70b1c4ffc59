"""Every setting of ``inturn work``: from its flag, else its variable, else pyproject.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from inturn.cli import work
from inturn.cli.main import run
from inturn.cli.pyproject import WorkTable
from tests.cli.support import Cli, write_pyproject

# flag, variable, what is read; then what each of the three says, and what that means
SETTINGS = {
    "app": (("{}",), "INTURN_APP", "target", ("f:a", "e:a", "p:a"), ("f:a", "e:a", "p:a")),
    "queues": (
        ("--queue", "{}"),
        "INTURN_QUEUES",
        "queues",
        ("flag", "from,the environment", ["of", "py project"]),
        (("flag",), ("from", "the", "environment"), ("of", "py project")),
    ),
    "concurrency": (
        ("--concurrency", "{}"),
        "INTURN_CONCURRENCY",
        "concurrency",
        (7, 5, 3),
        (7, 5, 3),
    ),
    "lease": (
        ("--lease", "{}"),
        "INTURN_LEASE",
        "lease_seconds",
        ("7s", "5s", "3s"),
        (7.0, 5.0, 3.0),
    ),
    "sweep": (("--sweep", "{}"), "INTURN_SWEEP", "sweep_seconds", ("7s", 5, 3.5), (7.0, 5.0, 3.5)),
    "processes": (("--processes", "{}"), "INTURN_PROCESSES", "processes", (7, 5, 3), (7, 5, 3)),
    "health-file": (
        ("--health-file", "{}"),
        "INTURN_HEALTH_FILE",
        "file",
        ("f", "e", "p"),
        (Path("f"), Path("e"), Path("p")),
    ),
    "health-port": (("--health-port", "{}"), "INTURN_HEALTH_PORT", "port", (7, 5, 3), (7, 5, 3)),
    "health-host": (
        ("--health-host", "{}"),
        "INTURN_HEALTH_HOST",
        "host",
        ("f", "e", "p"),
        ("f", "e", "p"),
    ),
}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What workers would have been told, had there been any."""
    found: list[dict[str, Any]] = []

    def note(_call: Any, settings: Any, desk: Any, processes: int = 1) -> None:
        found.append(
            msgspec.structs.asdict(settings)
            | msgspec.structs.asdict(desk)
            | {"processes": processes}
        )

    async def note_crew(*given: Any) -> int:
        note(*given)
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, "_alone", note)
    monkeypatch.setattr(work, "_crew", note_crew)
    return found


def test_every_key_of_pyproject_is_tried() -> None:
    assert set(SETTINGS) == {field.encode_name for field in msgspec.structs.fields(WorkTable)}


@pytest.mark.parametrize("key", SETTINGS)
def test_a_flag_comes_before_the_variable_and_that_before_pyproject(
    key: str, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flag, variable, name, said, meant = SETTINGS[key]
    target = () if key == "app" else ("shop:app",)
    write_pyproject(tmp_path, f"[tool.inturn.work]\n{key} = {said[2]!r}\n")
    monkeypatch.setenv(variable, str(said[1]))
    assert run(["work", *target, *(part.format(said[0]) for part in flag)]) == 0
    assert run(["work", *target]) == 0
    monkeypatch.setenv(variable, "")  # as if there were none
    assert run(["work", *target]) == 0
    whole = tuple(tmp_path / one if isinstance(one, Path) else one for one in meant)
    assert tuple(one[name] for one in told) == whole


def test_help_names_every_variable(sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = sqlite_cli.bare("work", "--help").out
    for _, variable, *_ in SETTINGS.values():
        assert f"env var: {variable}" in text
    assert "env var: INTURN_WORKER_NAME" in text


def test_the_variables_are_known_to_every_command(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _, variable, *_ in SETTINGS.values():
        monkeypatch.setenv(variable, "1")
    assert sqlite_cli("status").err == ""
    monkeypatch.setenv("INTURN_QUEUE", "mail")
    said = sqlite_cli("status").err
    assert said == "inturn: the variable INTURN_QUEUE does nothing. Did you mean INTURN_QUEUES?\n"


def test_an_app_that_the_variable_names_is_looked_for_in_this_folder(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    write_pyproject(tmp_path, "[tool.inturn.work]\napp = 'p:a'\n")
    assert run(["work"]) == 0
    monkeypatch.setenv("INTURN_APP", "e:a")
    assert run(["work"]) == 0
    assert [one["folder"] for one in told] == [str(tmp_path), str(below)]


def test_without_an_app_all_three_ways_to_name_one_are_said(
    told: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["work"]) == 2
    said = capsys.readouterr().err
    for way in ("`inturn work shop:app`", "INTURN_APP", "[tool.inturn.work]"):
        assert way in said
    assert told == []


def test_a_value_that_cannot_be_is_blamed_on_who_named_it(
    told: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said(*arguments: str) -> str:
        assert run(["work", "shop:app", *arguments]) == 2
        return capsys.readouterr().err

    write_pyproject(tmp_path, "[tool.inturn.work]\nhealth-port = 99999\n")
    assert "for '--health-port' (in pyproject.toml): " in said()
    monkeypatch.setenv("INTURN_HEALTH_PORT", "99998")
    assert "for '--health-port' (env var: 'INTURN_HEALTH_PORT'): " in said()
    assert "for '--health-port': " in said("--health-port", "99997")
    assert told == []
