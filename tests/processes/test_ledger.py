"""An application with tables of its own, as worker processes run it: killed, upgraded, and
reacting to each death once.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inturn.model.job import JobState
from tests import ledger
from tests.cli.support import COMMAND
from tests.ledger import Account, Payment, app, book
from tests.ledger.second import note
from tests.postgres_server import PostgresServer
from tests.processes.support import ROOT, Place, WorkerProcess, until

TARGET = "tests.ledger.second:app"
SETTINGS = ("--concurrency", "4", "--lease", "3s", "--sweep", "300ms")


def command(place: Place, *arguments: str) -> Any:
    """Run a command on the place's store, and return what it answers."""
    ran = subprocess.run(
        [*COMMAND, *arguments, "--json"],
        cwd=ROOT,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def migrate(place: Place, target: str = TARGET) -> int:
    """Make the ledger's tables, or bring them to their version, and return that."""
    arguments = ("store", "migrate", "-A", target, "--store", place.url)
    version: int = command(place, *arguments)["schemas"]["ledger"]
    return version


@pytest.fixture
def ledgers(place: Place) -> Iterator[Place]:
    """A place whose store has the tables of the ledger's second version."""
    migrate(place)
    with here(place):
        yield place


@contextmanager
def here(place: Place) -> Iterator[None]:
    """Use the app's second version in this process, too."""
    app.use(place.url)
    try:
        yield
    finally:
        app.sync(app.close())


def payments(account: str, *names: str) -> list[Payment]:
    return [Payment(name, account, 100) for name in names]


def until_over(place: Place) -> None:
    """Wait until no job waits or runs; some may be dead. The store must hold together."""
    until(lambda: not place.left())
    assert place.store(lambda store: store.check()) == []


def until_summed_up(expected: dict[str, tuple[int, int]]) -> None:
    """Wait until the duty has summed up what was charged and given back of each account."""

    def summed_up() -> bool:
        found = app.sync(ledger.accounts())
        return found == {name: Account(name, *sums) for name, sums in expected.items()}

    until(summed_up)


def until_given_back(place: Place, *names: str) -> None:
    """Wait until all is over and reactions have run: once for each of these, and for no other."""
    until(lambda: {one.name for one in place.effects("given_back")} == {*names})
    until_over(place)
    assert Counter(one.name for one in place.effects("given_back")) == Counter(names)


def id_of(place: Place, name: str, state: JobState) -> str:
    """Wait until the charge of a payment is in a state, and return its id."""

    def found() -> list[str]:
        rows = place.store(lambda store: store.jobs(kind="charge", state=state)).rows
        return [str(one.job.id) for one in rows if f'"{name}"' in one.job.payload]

    return until(found)[0]


def most_at_once(place: Place, killed: dict[int, int]) -> int:
    """Return how many payments the bank was asked for at once.

    ``killed``: how many effects there had been when a process was killed.
    """
    running: set[tuple[str, int]] = set()
    most = 0
    for number, one in enumerate(place.effects()):
        running = {(name, pid) for name, pid in running if killed.get(pid, number + 1) > number}
        if one.verb == "began":
            running.add((one.name, one.pid))
        elif one.verb == "ended":
            running.discard((one.name, one.pid))
        most = max(most, len(running))
    return most


def kill(place: Place, worker: WorkerProcess, killed: dict[int, int]) -> None:
    worker.kill()
    killed[worker.pid] = len(place.effects())


def test_each_payment_is_charged_or_given_back_once_whoever_is_killed(ledgers: Place) -> None:
    """Within the limit of its queue, over all workers. (B-01, B-02)"""
    place, killed = ledgers, dict[int, int]()
    workers = [place.work(*SETTINGS, target=TARGET) for _ in range(2)]
    booked = {
        account: payments(account, f"slow-{account}", *(f"{account}-{n}" for n in range(40)))
        + payments(account, f"{account}-refused")
        for account in "abcd"
    }
    app.sync(app.submit_many([book.call(some) for some in booked.values()]))
    until(lambda: len(place.effects("began")) == 2)  # of whichever accounts were booked first
    kill(place, workers[0], killed)
    workers.append(place.work(*SETTINGS, target=TARGET))
    (place.folder / "end").touch()
    until(lambda: len(place.effects("ended")) > 30)
    kill(place, workers[1], killed)
    until_over(place)
    until_summed_up(dict.fromkeys(booked, (4_100, 100)))
    assert most_at_once(place, killed) == 2
    refused = {one.name for some in booked.values() for one in some if "refused" in one.name}
    assert Counter(one.name for one in place.effects("given_back")) == Counter(refused)


def test_a_reaction_runs_once_however_the_death_came_about(ledgers: Place) -> None:
    """By a settle, by two kills, by a person who cancels it or drops its queue; and no second time
    when the dead job is retried and dies again, or is dropped. (B-02)
    """
    place = ledgers
    worker = place.work(*SETTINGS, target=TARGET)
    names = ("a-refused", "slow-killed", "cancelled")
    app.sync(book.submit([*payments("a", names[0]), *payments("b", *names[1:])]))
    place.began("slow-killed")
    command(place, "jobs", "cancel", id_of(place, "cancelled", JobState.WAITING))
    worker.kill()
    worker = place.work(*SETTINGS, target=TARGET)
    place.began("slow-killed", times=2)
    worker.kill()
    place.work(*SETTINGS, target=TARGET)
    until_given_back(place, *names)
    for verb in ("retry", "drop"):
        command(place, "dead", verb, id_of(place, "a-refused", JobState.DEAD))
        until_over(place)
    assert len(place.effects("began", "a-refused")) == 2
    command(place, "queues", "pause", "bank")
    app.sync(book.submit(payments("a", "in-its-queue")))
    id_of(place, "in-its-queue", JobState.WAITING)
    command(place, "queues", "drop", "bank", "--all")
    until_given_back(place, *names, "in-its-queue")
    until_summed_up({"a": (0, 200), "b": (0, 200)})


def test_a_reaction_runs_once_when_the_database_was_stopped_in_between(
    private_postgres: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    """The job dies, or its worker does, while the server is away. (B-02)"""
    server = private_postgres()
    place = Place(server.url("postgres"), tmp_path)
    migrate(place)
    with here(place):
        worker = place.work(*SETTINGS, target=TARGET)
        app.sync(book.submit([*payments("a", "slow-refused"), *payments("b", "slow-killed")]))
        place.began("slow-killed")
        place.began("slow-refused")
        server.stop("immediate")
        place.let_end("slow-refused")
        until(lambda: place.effects("ended", "slow-refused"))
        server.start()
        until_summed_up({"a": (0, 100), "b": (0, 0)})
        for times in (2, 3):
            server.stop("immediate")
            worker.kill()
            server.start()
            worker = place.work(*SETTINGS, target=TARGET)
            if times == 2:
                place.began("slow-killed", times)
        until_given_back(place, "slow-refused", "slow-killed")
        until_summed_up({"a": (0, 100), "b": (0, 100)})
    place.close()


@pytest.fixture
def first_version(tmp_path: Path) -> str:
    """The program before its second version, in a folder of its own: its app's name."""
    shutil.copytree(
        Path(ledger.__file__).parent,
        tmp_path / "first" / "ledger",
        ignore=shutil.ignore_patterns("0002*", "second.py", "note.sql", "__pycache__"),
    )
    return "ledger:app"


def test_an_old_worker_goes_on_while_its_application_is_upgraded(
    place: Place, first_version: str, tmp_path: Path
) -> None:
    """What only the new version has goes to its workers; the old one may start again. (B-03)"""

    def book_by_command(*names: str) -> None:
        payload = json.dumps({"payments": msgspec.to_builtins(payments("a", *names))})
        command(place, "submit", "book", "--payload", payload, "-A", first_version)

    place.environment["PYTHONPATH"] = str(tmp_path / "first")
    assert migrate(place, first_version) == 1
    old = place.work(*SETTINGS, target=first_version)
    book_by_command("a-1", "slow-a")
    place.began("slow-a")
    assert migrate(place) == 2
    new = place.work(*SETTINGS, target=TARGET)
    assert migrate(place, first_version) == 2
    with here(place):
        [payment] = payments("a", "a-1")
        for _ in range(20):
            app.sync(note.submit(payment, "by the new one"))
        until(lambda: len(place.effects("noted")) == 20)
        assert {one.pid for one in place.effects("noted")} == {new.pid}
        place.let_end("slow-a")
        until(lambda: place.effects("ended", "slow-a"))
        new.signal(signal.SIGTERM)
        assert new.ended() == 0
        book_by_command("a-2", "a-refused")
        until_summed_up({"a": (300, 100)})
        assert {one.pid for one in place.effects("began")} == {old.pid}
        again = place.work(*SETTINGS, target=first_version)
        old.kill()
        book_by_command("a-3")
        until_summed_up({"a": (400, 100)})
        assert {one.pid for one in place.effects("began", "a-3")} == {again.pid}
    until_over(place)
