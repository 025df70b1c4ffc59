"""A short run on each store: everything goes wrong, and every promise is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.queue.app import App
from inturn.verify import recovery
from inturn.verify.faults import NAMES
from tests.postgres_server import PostgresServer
from tests.verify.support import explained, verified

SECONDS = 5.0

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bear with a machine that stands still for longer than one that only runs this would."""
    monkeypatch.setattr(recovery, "SLACK_SECONDS", 60.0)


def test_every_promise_is_kept_on_sqlite(tmp_path: Path) -> None:
    report = verified(None, tmp_path, seconds=SECONDS, jobs=None, faults=NAMES, gap_seconds=0.5)
    assert report.is_good, explained(report)
    assert (report.store, report.is_drained, report.is_interrupted) == ("sqlite", True, False)
    assert report.jobs == report.done + report.dead + report.cancelled > 100
    assert sum(report.faults.values()) > 3
    assert report.dead > 0
    assert report.attempts > report.done


def test_every_promise_is_kept_on_postgresql(
    private_postgres: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    server = private_postgres()
    server.create_database("verified")
    url = server.url("verified")
    asyncio.run(App(url).migrate())
    report = verified(
        url, tmp_path, server=server, seconds=SECONDS, jobs=None, faults=NAMES, gap_seconds=0.5
    )
    assert report.is_good, explained(report)
    assert (report.store, report.is_drained, report.is_interrupted) == ("postgresql", True, False)
    assert report.jobs == report.done + report.dead + report.cancelled > 100
    assert sum(report.faults.values()) > 3
