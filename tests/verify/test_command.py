"""``inturn verify`` as a command: what it prints, keeps, checks again, and leaves with."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from inturn.cli.main import run
from inturn.verify.faults import NAMES
from inturn.verify.final import NAME, Final
from inturn.verify.history import Accepted, Failed, History, Reader
from tests.cli.support import Ran, run_process, start

ACCEPTED_MIN = 10  # batches: some of their jobs are not due yet, or behind a gate

pytestmark = pytest.mark.timeout(600)

Verify = Callable[..., Ran]


@pytest.fixture
def verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Verify:
    """The command in this process, where it makes no run: a process is dear, and shows no more."""
    for name in ("INTURN_STORE", "COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def verified(*arguments: str) -> Ran:
        return Ran(run(["verify", *arguments]), *capsys.readouterr())

    return verified


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of a small run, kept by the command itself."""
    folder = tmp_path_factory.mktemp("kept")
    ran = run_process(
        *("verify", "--jobs", "150", "--workers", "2", "--producers", "1", "--seed", "5"),
        *("--fault", "none", "--keep", str(folder / "history"), "--json"),
        *("--stop-command", "stop it", "--start-command", "start it"),
        cwd=folder,
    )
    assert (ran.code, ran.err) == (0, "")
    report = json.loads(ran.out)
    assert (report["is_good"], report["violations"], report["seed"]) == (True, [], 5)
    assert report["jobs"] == report["done"] + report["cancelled"] >= 150
    assert (report["faults"], report["untried"]) == ({}, [])
    assert report["again"].startswith("inturn verify --seed 5 --jobs 150 --workers 2")
    assert report["again"].endswith("--stop-command 'stop it' --start-command 'start it'")
    return folder / "history"


def copy(kept: Path, folder: Path) -> None:
    """Copy a history, to be changed."""
    for path in kept.iterdir():
        if path.suffix in (".json", ".jsonl"):
            (folder / path.name).write_bytes(path.read_bytes())


def test_a_history_that_was_kept_is_checked_again(
    kept: Path, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTURN_STORE", "sqlite:///of-something-else.db")  # not named with it
    ran = verify("--check", str(kept))
    assert (ran.code, ran.err) == (0, "")
    assert "every promise was kept" in ran.out


def test_a_fault_that_was_wanted_and_never_came_is_named(
    kept: Path, tmp_path: Path, verify: Verify
) -> None:
    copy(kept, tmp_path)
    final = json.loads((tmp_path / NAME).read_text())
    final["faults"] = ["stall", "handler-raises"]
    (tmp_path / NAME).write_text(json.dumps(final))
    ran = verify("--check", str(tmp_path))
    assert ran.code == 0
    assert "untried    handler-raises, stall: the run was too short" in ran.out


def test_a_fault_that_was_wanted_alone_and_never_came_leaves_with_3(
    kept: Path, tmp_path: Path, verify: Verify
) -> None:
    copy(kept, tmp_path)
    final = json.loads((tmp_path / NAME).read_text())
    final["faults"] = ["stall"]
    (tmp_path / NAME).write_text(json.dumps(final))
    ran = verify("--check", str(tmp_path))
    assert ran.code == 3
    assert "no promise was broken, but stall never came" in ran.out
    assert "every promise was kept" not in ran.out
    assert ran.err.startswith("inturn: stall never came")
    assert "--seconds" in ran.err
    final["is_interrupted"] = True  # who stopped it knows that it was short
    (tmp_path / NAME).write_text(json.dumps(final))
    assert verify("--check", str(tmp_path)).code == 0


def test_a_history_that_breaks_a_promise_leaves_with_1_and_names_it(
    kept: Path, tmp_path: Path
) -> None:
    copy(kept, tmp_path)
    final = json.loads((tmp_path / NAME).read_text())
    lost = next(id for id, (state, *_) in final["jobs"].items() if state == "done")
    del final["jobs"][lost]
    (tmp_path / NAME).write_text(json.dumps(final))
    ran = run_process("verify", "--check", str(tmp_path), cwd=tmp_path)
    assert ran.code == 1
    assert "P2 accounted: 1" in ran.out
    assert f"job {lost} was accepted and is gone" in ran.out
    assert ran.err.startswith("inturn: ")


def test_a_fault_that_could_not_be_made_leaves_with_3_and_says_why(
    kept: Path, tmp_path: Path, verify: Verify
) -> None:
    copy(kept, tmp_path)
    written = History(tmp_path, "run")
    for _ in range(2):
        written.write(Failed(name="kill-backend", error="RuntimeError: no such lever"))
    ran = verify("--check", str(tmp_path))
    assert ran.code == 3
    assert (
        "failed     kill-backend, which could not be made: RuntimeError: no such lever (2 times)"
        in ran.out
    )
    assert "no promise was broken, but not all that was to go wrong" in ran.out
    assert "every promise was kept" not in ran.out
    assert ran.err.startswith("inturn: some faults could not be made")
    document = verify("--check", str(tmp_path), "--json").document
    assert (document["is_good"], document["violations"]) == (False, [])


def test_a_history_with_a_line_that_is_none_is_refused(
    kept: Path, tmp_path: Path, verify: Verify
) -> None:
    (tmp_path / NAME).write_bytes((kept / NAME).read_bytes())
    (tmp_path / "run.1.jsonl").write_text("once upon a time\n")
    ran = verify("--check", str(tmp_path))
    assert (ran.code, ran.out) == (3, "")
    assert "cannot be read" in ran.err


def test_a_command_that_stops_no_server_is_no_fault(tmp_path: Path, migrated_url: str) -> None:
    ran = run_process(
        *("verify", "--store", migrated_url, "--seconds", "600", "--every", "0.1"),
        *("--fault", "stop-server", "--stop-command", "exit 7", "--start-command", "true"),
        cwd=tmp_path,
        environment={"TMPDIR": str(tmp_path)},
    )
    assert (ran.code, ran.out) == (2, "")
    assert "'exit 7' ended with 7" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_user_who_may_make_no_table_is_told_so(tmp_path: Path, migrated_url: str) -> None:
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        connection.execute("drop schema public")
    ran = run_process(
        *("verify", "--store", migrated_url),
        cwd=tmp_path,
        environment={"TMPDIR": str(tmp_path)},
    )
    assert (ran.code, ran.out) == (3, "")
    assert "cannot be made" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_an_error_after_the_run_leaves_its_history_and_says_where(
    tmp_path: Path, migrated_url: str
) -> None:
    process = begin(tmp_path, "--store", migrated_url)
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        [(table,)] = connection.execute(
            "select relname::text from pg_class where relname like 'inturn\\_verify\\_%'"
        )
        connection.execute(f"create view kept as select * from {table}".encode())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode not in (0, 1, 130)
    assert "kept" in err  # what stands in the way of the table's end
    [folder] = tmp_path.iterdir()
    assert f"the history of this run is in {folder}" in err
    assert out == ""
    ran = run_process("verify", "--check", str(folder), cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")


def test_two_histories_are_not_mixed(kept: Path, verify: Verify) -> None:
    ran = verify("--keep", str(kept))
    assert (ran.code, ran.out) == (2, "")
    assert "holds a history already" in ran.err


def test_what_is_kept_holds_no_address(kept: Path) -> None:
    assert Final.read(kept).settings.store == ""


def begin(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a long run whose history lies in ``tmp_path``; return it when jobs were accepted."""
    process = start(
        *("verify", "--seconds", "600", "--workers", "1", "--producers", "1"),
        *("--fault", "none", *arguments),
        cwd=tmp_path,
        environment={"TMPDIR": str(tmp_path)},
    )
    give_up_at = time.monotonic() + 120
    while (
        sum(
            isinstance(event, Accepted)
            for folder in tmp_path.glob("inturn-verify-*")
            for _, event in Reader(folder).news()
        )
        < ACCEPTED_MIN
    ):
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_signal_stops_it_and_what_there_is_is_checked(
    number: signal.Signals, tmp_path: Path
) -> None:
    process = begin(tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "")
    assert "stopped    before its end" in out
    assert "every promise was kept" in out
    assert list(tmp_path.iterdir()) == []


def test_what_a_second_signal_leaves_undone_is_cancelled(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mine.db'}"
    assert run_process("store", "migrate", "--store", url, cwd=tmp_path).code == 0
    process = begin(tmp_path, "--store", url)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)  # another, for two of the same may arrive as one
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "")
    assert "stopped    before its end" in out
    shown = run_process("status", "--store", url, "--json", cwd=tmp_path)
    queues = json.loads(shown.out)["queues"]
    assert len(queues) == 2
    states = ("waiting", "running", "scheduled", "retrying", "blocked", "dead")
    assert {name: sum(row[name] for row in queues) for name in states} == dict.fromkeys(states, 0)


def test_every_fault_is_listed(verify: Verify) -> None:
    ran = verify("--list-faults")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.out.splitlines()] == list(NAMES)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--fault", "earthquake"), 2, "there is no fault 'earthquake'"),
        (("--fault", "none", "--fault", "kill-worker"), 2, "give no other fault with it"),
        (("--fault", "kill-backend"), 2, "PostgreSQL"),
        (("--fault", "stop-worker", "--workers", "1"), 2, "needs --workers 2 or more"),
        (("--stop-command", "true"), 2, "belong together"),
        (("--check", "nowhere"), 3, "holds no history"),
        (("--check", "nowhere", "--seed", "7", "--keep", "there"), 2, "--seed, --keep means"),
        (("--check", "nowhere", "--workers", "3"), 2, "--workers means nothing"),
        (("--check", "nowhere", "--producers", "2"), 2, "--producers means nothing"),
        (("--check", "nowhere", "--every", "1"), 2, "--every means nothing"),
        (("--check", "nowhere", "--store", "sqlite:///a.db"), 2, "--store means nothing"),
        (("--keep", "/dev/null/history"), 2, "cannot be the folder of a history"),
        (("--keep", "/proc"), 2, "cannot be the folder of a history"),
        (("--store", "postgresql://127.0.0.1:1/nothing"), 3, "127.0.0.1"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: tuple[str, ...], code: int, said: str, verify: Verify
) -> None:
    ran = verify(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_a_store_without_tables_is_not_made_into_one(tmp_path: Path, verify: Verify) -> None:
    ran = verify("--store", "sqlite:///missing.db")
    assert (ran.code, ran.out) == (3, "")
    assert not (tmp_path / "missing.db").exists()
