"""Where the store's address comes from: the flag, then the environment, then pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from inturn.cli.settings import Address, find_address
from inturn.model.errors import BadInput
from inturn.store.address import without_password
from tests.cli.support import Cli, write_pyproject

NAMED = '[tool.inturn]\nstore = "{}"\n'


def test_a_flag_comes_before_the_environment_and_that_before_pyproject(tmp_path: Path) -> None:
    write_pyproject(tmp_path, NAMED.format("sqlite:///project.db"))
    environment = {"INTURN_STORE": "sqlite:///environment.db"}

    def found(flag: str | None, environment: dict[str, str]) -> Address:
        return find_address(flag, environment=environment, folder=tmp_path)

    assert found("sqlite:///flag.db", environment) == Address(
        url="sqlite:///flag.db", source="--store"
    )
    assert found(None, environment) == Address(
        url="sqlite:///environment.db", source="INTURN_STORE"
    )
    assert found(None, {"INTURN_STORE": ""}) == Address(
        url="sqlite:///project.db", source=str(tmp_path / "pyproject.toml")
    )


def test_the_nearest_pyproject_that_names_a_store_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    write_pyproject(tmp_path, NAMED.format("postgresql://far@host/db"))
    write_pyproject(tmp_path / "a", NAMED.format("postgresql://near@host/db"))
    write_pyproject(folder, '[project]\nname = "x"\n')
    found = find_address(None, environment={}, folder=folder)
    assert found.url == "postgresql://near@host/db"


@pytest.mark.parametrize(
    ("named", "seen"),
    [
        ("sqlite:///work.db", "sqlite:///{home}/work.db"),
        ("sqlite:///work.db?synchronous=normal", "sqlite:///{home}/work.db?synchronous=normal"),
        ("sqlite:////var/work.db", "sqlite:////var/work.db"),
        ("postgresql://u@host/db", "postgresql://u@host/db"),
    ],
)
def test_a_file_in_pyproject_is_named_from_its_own_folder(
    named: str, seen: str, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    write_pyproject(tmp_path, NAMED.format(named))
    assert find_address(None, environment={}, folder=tmp_path).url == named
    below = find_address(None, environment={}, folder=tmp_path / "sub")
    assert below.url == seen.format(home=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no store is named"),
        ("[tool.inturn]\n", "no store is named"),
        ("[tool.inturn]\nstore = 7\n", r"\[tool.inturn\]: store must be text, not 7\.$"),
        ("[tool.inturn\n", "cannot be read"),
        ("tool = 1\n", "no store is named"),
        ("[tool]\ninturn = 1\n", r"\[tool.inturn\] must be a table, not 1\.$"),
        (
            '[tool.inturn]\nstor = "sqlite:///work.db"\n',
            r"\[tool.inturn\] has no key 'stor'. Did you mean store\? It may have store, work\.$",
        ),
        ("[tool.inturn]\nqueues = 7\n", r"has no key 'queues'. It may have store, work\.$"),
        ("[tool.inturn]\nwork = 7\n", r"\[tool.inturn.work\] must be a table, not 7\.$"),
        (
            "[tool.inturn.work]\nconcurency = 7\n",
            r"has no key 'concurency'. Did you mean concurrency\?",
        ),
    ],
)
def test_a_pyproject_that_names_none_is_told(text: str, said: str, tmp_path: Path) -> None:
    write_pyproject(tmp_path, text)
    with pytest.raises(BadInput, match=said):
        find_address(None, environment={}, folder=tmp_path)


def test_without_a_store_the_command_says_how_to_name_one(sqlite_cli: Cli) -> None:
    ran = sqlite_cli.bare("status")
    assert (ran.code, ran.out) == (2, "")
    for way in ("--store", "INTURN_STORE", "[tool.inturn]"):
        assert way in ran.err


def test_the_command_finds_its_store_in_the_environment_and_in_pyproject(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_pyproject(tmp_path, NAMED.format("sqlite:///work.db"))
    assert f"{tmp_path}/pyproject.toml" in sqlite_cli.bare("store", "info").out
    monkeypatch.setenv("INTURN_STORE", sqlite_cli.url)
    assert "INTURN_STORE" in sqlite_cli.bare("store", "info").out
    assert "--store" in sqlite_cli("store", "info").out


def test_a_pyproject_that_is_wrong_is_told_by_the_command_and_left_alone_with_a_flag(
    sqlite_cli: Cli, tmp_path: Path
) -> None:
    write_pyproject(tmp_path, "[tool.inturn]\nstor = 1\n")
    ran = sqlite_cli.bare("status")
    assert (ran.code, ran.out) == (2, "")
    assert "has no key 'stor'. Did you mean store?" in ran.err
    assert sqlite_cli("status").code == 0


def test_a_variable_that_does_nothing_is_told_and_does_no_harm(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sqlite_cli("status", "--json").err == ""
    monkeypatch.setenv("INTURN_CONCURENCY", "7")
    monkeypatch.setenv("INTURN_COLOUR", "blue")
    monkeypatch.setenv("INTURN_TEST_ANYTHING", "1")  # left to tests
    monkeypatch.setenv("INTURN_CONCURRENCY", "7")
    ran = sqlite_cli("status", "--json")
    assert (ran.code, ran.document["queues"]) == (0, [])
    colour, misspelt = ran.err.splitlines()
    assert (
        misspelt
        == "inturn: the variable INTURN_CONCURENCY does nothing. Did you mean INTURN_CONCURRENCY?"
    )
    assert colour.startswith("inturn: the variable INTURN_COLOUR does nothing. Those that do are ")
    for known in ("INTURN_HEALTH_PORT", "INTURN_STORE", "INTURN_WORKER_NAME"):
        assert known in colour


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("postgresql://me:secret@host:5432/db?x=1", "postgresql://me:…@host:5432/db?x=1"),
        ("postgresql://me:sec@ret@host/db", "postgresql://me:…@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("sqlite:///work.db", "sqlite:///work.db"),
        ("postgresql://me:secret@[bad", "postgresql://…"),
    ],
)
def test_a_password_is_never_shown(url: str, printed: str) -> None:
    assert without_password(url) == printed
