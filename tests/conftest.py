"""Fixtures that every kind of test may use: a PostgreSQL server, a database, an empty store."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from inturn.queue.app import App
from tests.postgres_server import DatabaseServer, PostgresServer

# The same examples each time, however slow the machine is at the moment: new ones are for
# INTURN_TEST_HYPOTHESIS=long, where a failure is news and not in anybody's way.
settings.register_profile(
    "same",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("same"), derandomize=False, print_blob=True)
settings.load_profile("long" if os.environ.get("INTURN_TEST_HYPOTHESIS") == "long" else "same")

# Who runs the tests in the background may have them, and all that they start, ignore Ctrl-C, and
# under nohup that the terminal is closed.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Processes are killed in these tests, never machines: what PostgreSQL has written outlives it
# without waiting for the disk, which other tests keep busy.
UNSYNCED = {"fsync": "off"}


# How long each test takes that is not quick, written by `make test-all`. It is a file and not
# a mark on each: no one has to measure, and to move the mark when a test grows or shrinks.
DURATIONS = Path(__file__).with_name("durations.txt")
MEDIUM_SECONDS, SLOW_SECONDS = 0.3, 3.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-durations", action="store_true", help=f"write {DURATIONS.name}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long, and what needs a PostgreSQL server."""
    seconds = _durations()
    for item in items:
        took = seconds.get(item.nodeid.partition("[")[0], 0.0)
        if took > MEDIUM_SECONDS and not item.get_closest_marker("medium"):  # by hand: stays so
            item.add_marker(pytest.mark.slow if took > SLOW_SECONDS else pytest.mark.medium)
        fixtures = getattr(item, "fixturenames", ())
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if {"postgres_server", "private_postgres"} & {*fixtures} or any(
            isinstance(value, str) and value == "postgres" for value in params
        ):
            item.add_marker(pytest.mark.postgres)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write down how long each test took, the longest of its cases, if that was asked for.

    What was not run keeps its line, so that a directory may be measured by itself.
    """
    if not config.getoption("write_durations"):
        return
    cases: dict[str, float] = defaultdict(float)
    for report in (one for some in terminalreporter.stats.values() for one in some):
        if isinstance(report, pytest.TestReport):
            cases[report.nodeid] += report.duration
    ran: dict[str, float] = defaultdict(float)
    for case, took in cases.items():
        test = case.partition("[")[0]
        ran[test] = max(ran[test], took)
    tests = sorted((_durations() | ran).items())
    long = [f"{took:.1f} {test}\n" for test, took in tests if took > MEDIUM_SECONDS]
    DURATIONS.write_text("".join(long), encoding="utf-8")


def _durations() -> dict[str, float]:
    lines = DURATIONS.read_text(encoding="utf-8").splitlines()
    return {test: float(took) for took, test in (line.split() for line in lines)}


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take what was collected for no garbage, ever: it is far more than what a test makes.

    To look through all of it took a seventh of a second, each time a test collects garbage.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[DatabaseServer]:
    """The server that tests share: the one in INTURN_TEST_POSTGRES, or one of this worker's own.

    A worker of pytest-xdist is a session of its own, so two workers start two servers.
    """
    if url := os.environ.get("INTURN_TEST_POSTGRES"):
        named = DatabaseServer(url)
        yield named
        named.hang_up()
    else:
        with PostgresServer(settings=UNSYNCED) as server:
            yield server


@pytest.fixture
def postgres_url(postgres_server: DatabaseServer) -> Iterator[str]:
    """The url of an empty database that only this test uses; about 60 ms to make and drop."""
    with postgres_server.fresh_database() as url:
        yield url


@pytest.fixture(scope="session")
def migrated_database(postgres_server: DatabaseServer) -> Iterator[str]:
    """The name of a database with empty tables, to be copied: quicker than making them anew."""
    with postgres_server.fresh_database() as url:
        with ThreadPoolExecutor() as thread:  # a loop may run here, of who asks for it first
            thread.submit(asyncio.run, App(url).migrate()).result()
        yield url.rpartition("/")[2]


@pytest.fixture
def migrated_url(postgres_server: DatabaseServer, migrated_database: str) -> Iterator[str]:
    """The url of a database with empty tables that only this test uses."""
    with postgres_server.fresh_database(template=migrated_database) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The url of an empty store of each sort, ready for an app."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}"
    found: str = request.getfixturevalue("migrated_url")
    return found


@pytest.fixture
def private_postgres() -> Iterator[Callable[..., PostgresServer]]:
    """Start servers that only this test uses, to be stopped and started at will.

    Takes settings for ``PostgresServer``; each server costs about half a second.
    """
    servers: list[PostgresServer] = []

    def start(settings: dict[str, str] | None = None) -> PostgresServer:
        server = PostgresServer(settings=UNSYNCED | (settings or {}))
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()
