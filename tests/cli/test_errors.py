"""When it cannot be: a clear line, the right exit code, no traceback, and nothing made."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from inturn.cli.exits import ExitCode, code_of
from inturn.model import errors
from inturn.model.errors import InturnError
from tests.cli.support import NOWHERE, Cli

READS = [("status",), ("jobs", "list"), ("store", "info"), ("store", "check"), ("submit", "k")]


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_a_file_that_is_not_there_is_not_made(
    sqlite_cli: Cli, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    ran = sqlite_cli(*arguments, store="sqlite:///gone.db")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == (
        "inturn: there is no file gone.db. Name the right one, or make it: "
        "`inturn store migrate --store sqlite:///gone.db`.\n"
    )
    assert not list(tmp_path.glob("gone.db*"))


def test_an_empty_file_is_left_empty(sqlite_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    ran = sqlite_cli("status", store="sqlite:///empty.db")
    assert (ran.code, ran.out) == (3, "")
    assert "`inturn store migrate --store sqlite:///empty.db`" in ran.err
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_database_without_tables_says_to_migrate(sqlite_cli: Cli, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("create table mine (a)")
    connection.close()
    ran = sqlite_cli("status", store="sqlite:///other.db")
    assert (ran.code, ran.out) == (3, "")
    assert "Run `inturn store migrate --store sqlite:///other.db`" in ran.err
    assert sqlite_cli("store", "migrate", store="sqlite:///other.db").code == 0
    assert sqlite_cli("status", store="sqlite:///other.db").code == 0


def test_a_postgres_without_tables_says_to_migrate(
    postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(postgres_url, capsys)
    ran = cli("status")
    assert (ran.code, ran.out) == (3, "")
    assert "Run `inturn store migrate`" in ran.err
    migrated = cli.json("store", "migrate")
    assert migrated == {"store": postgres_url, "schema_version": migrated["schema_version"]}
    assert cli("status").code == 0


def test_a_newer_store_is_refused_and_left_as_it_is(cli: Cli) -> None:
    async def renew(store: object) -> None:
        prefix = "inturn." if cli.url.startswith("postgresql") else ""
        columns = "(version)" if prefix else "(version, migrated_at)"
        values = "(99)" if prefix else "(99, 0)"
        async with store.transaction() as transaction:  # type: ignore[attr-defined]
            await transaction.execute(
                f"insert into {prefix}schema_version {columns} values {values}"
            )

    cli.store(renew)
    for arguments in (("status",), ("store", "migrate")):
        ran = cli(*arguments)
        assert (ran.code, ran.out) == (3, "")
        assert "this store has schema version 99" in ran.err
        assert "Upgrade inturn here" in ran.err


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("nonsense", 2, "'nonsense' is not the address of a store"),
        ("sqlite://work.db", 2, "names no file"),
        ("sqlite:///work.db?mode=fast", 2, "There are: synchronous"),
        ("sqlite:///:memory:", 2, "gone when the command ends"),
        ("postgresql://me:secret@[bad", 2, "address cannot be read"),
        ("postgresql://me:secret@127.0.0.1:1/db", 3, "PostgreSQL cannot be reached"),
        ("sqlite:////nowhere/work.db", 3, "there is no file /nowhere/work.db"),
        ("sqlite:///.", 3, "cannot be opened"),
        ("sqlite:///work.db/x", 3, "there is no file work.db/x"),
    ],
)
def test_a_store_that_cannot_be_is_told_without_its_password(
    sqlite_cli: Cli, url: str, code: int, said: str
) -> None:
    ran = sqlite_cli("status", store=url)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "secret" not in ran.err
    assert "committed" not in ran.err, "nothing was under way"
    assert len(ran.err.splitlines()) == 1


def test_a_store_that_does_not_answer_is_given_up(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cli.call.OPEN_SECONDS_MAX", 0.0)
    ran = sqlite_cli("status")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("inturn: the store did not answer within 0 s.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("jobs", "show", "abc"), "'abc' is not the id of a job"),
        (("jobs", "list", "--limit", "-1"), "Invalid value for '--limit'"),
        (("jobs", "list", "--limit", "0"), "Invalid value for '--limit'"),
        (("jobs", "list", "--cursor", "zzz"), "is not a cursor of this list"),
        (("jobs", "list", "--state", "lost"), "'lost' is not one of 'waiting'"),
        (("dead", "list", "--cursor", "zzz"), "is not a cursor of this list"),
        (("stats", "q", "--minutes", "0"), "Invalid value for '--minutes'"),
        (("queues", "configure", "q", "--depth-max", "x"), "neither a whole number nor 'none'"),
        (("queues", "configure", "q", "--depth-max", "0"), "depth_max is 0; it may be 1 to"),
        (("queues", "configure", "q", "--on-dead", "x"), "Invalid value for '--on-dead'"),
        (("nonsense",), "No such"),
        (("jobs", "lists"), "No such command 'lists'"),
        (("jobs", "list", "--nonsense"), "No such option"),
        (("lanes", "retry", "q"), "Missing argument 'KEY'"),
    ],
)
def test_what_cannot_be_asked_is_told_in_two_lines_at_most(
    sqlite_cli: Cli, arguments: tuple[str, ...], said: str
) -> None:
    ran = sqlite_cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("inturn: ")
    assert said in ran.err
    assert len(ran.err.splitlines()) <= 2


def test_debug_shows_the_traceback(sqlite_cli: Cli) -> None:
    quiet = sqlite_cli("status", store="nonsense")
    loud = sqlite_cli("status", "--debug", store="nonsense")
    assert "Traceback" not in quiet.err
    assert loud.err.startswith("Traceback")
    assert loud.err.endswith(quiet.err)
    assert loud.code == quiet.code


def test_a_fault_of_our_own_is_told_as_one(
    sqlite_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("inturn.store.sqlite.store.SqliteStore.queues", broken)
    ran = sqlite_cli("status")
    assert (ran.code, ran.out) == (70, "")
    assert ran.err == (
        "inturn: unexpected ZeroDivisionError: by zero.\n"
        "This is a fault of inturn: run it again with --debug, and report what it prints.\n"
    )


def test_every_error_has_its_exit_code() -> None:
    def code(name: str) -> ExitCode:
        kind: type[InturnError] = getattr(errors, name)
        return code_of(kind.__new__(kind))

    wanted = {
        ExitCode.USAGE: ("BadInput", "InvalidPayload", "OutOfBounds", "InvalidStoreURL"),
        ExitCode.NO: ("UnknownJob", "UnknownLane", "UnknownQueue", "NotHalted", "DedupeConflict"),
        ExitCode.STORE: ("StoreUnavailable", "StoreFull", "SchemaMissing", "SchemaTooNew"),
        ExitCode.LATER: ("QueueFull", "StoreBusy"),
    }
    for wanted_code, names in wanted.items():
        assert {code(name) for name in names} == {wanted_code}


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "list", "--queue", "nope"),
        ("dead", "list", "--queue", "nope"),
        ("dead", "retry", "--all", "--queue", "nope", "--yes"),
        ("lanes", "list", "nope"),
        ("stats", "nope"),
        ("queues", "pause", "nope"),
        ("queues", "resume", "nope"),
        ("queues", "open-gate", "nope", "1"),
        ("queues", "advance-gate", "nope"),
    ],
    ids=" ".join,
)
def test_a_queue_that_is_not_there_is_named_and_not_made(
    sqlite_cli: Cli, arguments: tuple[str, ...]
) -> None:
    for format in ((), ("--json",)):
        ran = sqlite_cli(*arguments, *format)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == (
            "inturn: there is no queue 'nope': nothing was ever submitted to it.\n"
            "`inturn queues list` shows the queues there are; "
            "`inturn queues configure` makes one.\n"
        )
    assert sqlite_cli.json("queues", "list") == {"queues": []}


@pytest.mark.parametrize(
    "arguments",
    [("jobs", "show"), ("jobs", "explain"), ("jobs", "cancel"), ("dead", "show")],
    ids=" ".join,
)
def test_a_job_that_is_not_there_is_not_found(cli: Cli, arguments: tuple[str, ...]) -> None:
    ran = cli(*arguments, str(NOWHERE))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"inturn: there is no job {NOWHERE} here")
    assert len(ran.err.splitlines()) == 2
