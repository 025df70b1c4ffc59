"""Health: well while the loop turns and the store answers, and not well soon after one does not."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.cli.conftest import migrate
from tests.postgres_server import PostgresServer, free_port
from tests.processes.jobs import count, hold, hold_loop
from tests.processes.support import Place, children, until

BRIEF = ("--lease", "2s", "--sweep", "500ms")


def asked(port: int, path: str = "/healthz") -> tuple[int, dict[str, object]]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def until_status(port: int, status: int) -> dict[str, object]:
    """Wait until it answers with a status, and return what it says with it."""
    return until(lambda: [said for found, said in [asked(port)] if found == status])[0]


def age_seconds(file: Path) -> float:
    return time.time() - file.stat().st_mtime


def test_a_worker_whose_loop_is_blocked_is_not_well(sqlite_place: Place) -> None:
    place, port = sqlite_place, free_port()
    file = place.folder / "health"
    worker = place.work(*BRIEF, "--health-port", str(port), "--health-file", str(file))
    assert until_status(port, 200) == {"healthy": True, "why": None}
    until(file.exists)
    place.submit(hold_loop.call("h"))
    place.began("h")
    assert "its loop has not turned" in str(until_status(port, 503)["why"])
    until(lambda: age_seconds(file) > 2.0)
    place.let_end("h")
    until_status(port, 200)
    until(lambda: age_seconds(file) < 2.0)
    assert asked(port, "/")[0] == 404
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert not file.exists()


def test_a_crew_is_well_when_all_of_it_is(sqlite_place: Place) -> None:
    port = free_port()
    sqlite_place.work("--processes", "2", "--health-port", str(port))
    until_status(port, 200)
    [stuck, _] = sqlite_place.views()
    sqlite_place.stop(stuck.pid)
    try:
        assert f"worker {stuck.id}: nothing was heard" in str(until_status(port, 503)["why"])
    finally:
        os.kill(stuck.pid, signal.SIGCONT)
    until_status(port, 200)


@contextmanager
def gone(server: PostgresServer) -> Iterator[None]:
    """Let a server be away: whoever asks for it is refused."""
    server.stop("immediate")
    yield


@contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    """Let a server be there and not answer, as behind a cable that was cut."""
    [first, *_] = (server.directory / "data" / "postmaster.pid").read_text().splitlines()
    processes = [int(first), *children(int(first))]
    send_all(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        send_all(processes, signal.SIGCONT)


def send_all(processes: Sequence[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):  # a server's helpers come and go
            os.kill(pid, number)


@pytest.mark.skipif(
    "INTURN_TEST_POSTGRES" in os.environ, reason="a server that is given is not restarted"
)
def test_workers_outlive_a_server_that_goes_and_comes_back(
    private_postgres: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    server = private_postgres()
    server.create_database("work")
    migrate(server.url("work"))
    place, port = Place(server.url("work"), tmp_path), free_port()
    try:
        # Who is soon said to be unwell also loses its leases soon: the other one has the jobs.
        first = place.work("--health-port", str(port), "--lease", "4s", "--queue", "none")
        second = place.work("--lease", "60s")
        until_status(port, 200)
        place.submit(hold.call("h"), *(count.using(key="k").call("k", n) for n in range(100)))
        place.began("h")
        until(lambda: place.left() == 1)
        server.stop("immediate")
        place.let_end("h")
        assert "the store has not" in str(until_status(port, 503)["why"])
        server.start()
        until_status(port, 200)
        place.submit(*(count.using(key="k").call("k", n) for n in range(100, 200)))
        place.until_done()
        for worker in (first, second):
            worker.signal(signal.SIGTERM)
        assert [worker.ended() for worker in (first, second)] == [0, 0]
    finally:
        place.close()
    numbers = [one.number for one in place.effects("count")]
    assert set(numbers) == set(range(200))
    assert numbers == sorted(numbers)


@pytest.mark.skipif(
    "INTURN_TEST_POSTGRES" in os.environ, reason="a server that is given is not restarted"
)
@pytest.mark.parametrize(
    ("leave", "said"), [(gone, "for 3 s: "), (frozen, "for 3 s")], ids=["gone", "frozen"]
)
def test_a_server_that_is_away_is_told_of_soon_and_holds_up_no_idle_worker(
    private_postgres: Callable[..., PostgresServer],
    tmp_path: Path,
    leave: Callable[[PostgresServer], AbstractContextManager[None]],
    said: str,
) -> None:
    """The store itself goes on trying for 30 s; a worker says so, and stops, long before that."""
    server = private_postgres()
    server.create_database("work")
    migrate(server.url("work"))
    place = Place(server.url("work"), tmp_path)
    try:
        told, hasty = place.work(), place.work()
        with leave(server):
            began_at = time.monotonic()
            hasty.signal(signal.SIGTERM)
            event = until(lambda: told.events("store_troubled"))[0]
            assert time.monotonic() - began_at < 20.0
            assert event["error"].startswith(f"the store has not answered {said}")
            assert hasty.ended(20.0) == 0
            told.signal(signal.SIGTERM)
            assert told.ended(20.0) == 0
        assert len(told.events("store_troubled")) == 1
        assert hasty.events("stopped")
    finally:
        place.close()
