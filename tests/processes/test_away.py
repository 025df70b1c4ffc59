"""A process of a crew that begins while the store is away: said once, and begun when it is back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import migrate
from tests.postgres_server import PostgresServer
from tests.processes.jobs import count
from tests.processes.support import Place, children, until

STARTS = 2


@pytest.mark.skipif(
    "INTURN_TEST_POSTGRES" in os.environ, reason="a server that is given is not restarted"
)
def test_a_process_that_is_replaced_while_the_store_is_away_says_so_once(
    private_postgres: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    server = private_postgres()
    server.create_database("work")
    migrate(server.url("work"))
    place = Place(server.url("work"), tmp_path)
    try:
        crew = place.work("--processes", "2", "--lease", "60s")
        until(lambda: len(place.views()) == 2)
        [killed] = [view.pid for view in place.views() if view.id == f"{crew.name}-2"]
        server.stop("immediate")
        os.kill(killed, signal.SIGKILL)
        started: set[int] = set()

        def of_the_new(kind: str) -> list[dict[str, Any]]:
            return [one for one in crew.events(kind) if f"{crew.name}-2." in one["worker"]]

        def is_started_often() -> bool:
            started.update(children(crew.pid))
            return len(started - {killed}) > STARTS + 1  # the first of the crew is there, too

        until(is_started_often)
        server.start()
        until(lambda: of_the_new("store_back"))
        place.submit(*(count.call("open", n) for n in range(10)))
        place.until_done()
        crew.signal(signal.SIGTERM)
        assert crew.ended() == 0
    finally:
        place.close()
    [troubled] = of_the_new("store_troubled")
    assert troubled["error"].startswith("PostgreSQL cannot be reached: ")
    assert [one["pid"] for one in crew.events("member_died")] == [killed]
    assert crew.errors == ""
