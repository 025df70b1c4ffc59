"""A worker that may not write its store ends with that, and is not started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.processes.jobs import count
from tests.processes.support import APP, Place

READING = "tests.processes.reading:app"
STORE = 3


@pytest.fixture
def reader(url: str, tmp_path: Path) -> Iterator[tuple[Place, str]]:
    """A place whose workers may only read its store, and the app they are to work for."""
    if url.startswith("sqlite"):
        place = Place(url, tmp_path)
        yield place, READING
        place.close()
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop role if exists reader")
        connection.execute("create role reader login")
        connection.execute("grant usage on schema inturn to reader")
        connection.execute("grant select on all tables in schema inturn to reader")
    parts = urlsplit(url)
    theirs = urlunsplit(parts._replace(netloc=f"reader@{parts.netloc.rpartition('@')[2]}"))
    place = Place(url, tmp_path)
    place.environment["INTURN_STORE"] = theirs
    yield place, APP
    place.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop owned by reader")
        connection.execute("drop role reader")


@pytest.mark.parametrize(("more", "jobs"), [(["--drain"], 1), (["--processes", "2"], 0)])
def test_a_worker_that_may_only_read_ends_with_that(
    reader: tuple[Place, str], more: list[str], jobs: int
) -> None:
    place, target = reader
    place.submit(*(count.call("open", n) for n in range(jobs)))
    worker = place.start(*more, target=target)
    assert worker.ended() == STORE
    [line] = [line for line in worker.errors.splitlines() if line.startswith("inturn: ")]
    assert "denied" in line or "readonly" in line
    assert not worker.events("started")
    assert not worker.events("member_died")
