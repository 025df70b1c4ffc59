"""Fixtures that every kind of test may use: a PostgreSQL server, and a database on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.postgres_server import DatabaseServer, PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[DatabaseServer]:
    """The server that tests share: the one in INTURN_TEST_POSTGRES, or one of this worker's own.

    A worker of pytest-xdist is a session of its own, so two workers start two servers.
    """
    if url := os.environ.get("INTURN_TEST_POSTGRES"):
        yield DatabaseServer(url)
    else:
        with PostgresServer() as server:
            yield server


@pytest.fixture
def postgres_url(postgres_server: DatabaseServer) -> Iterator[str]:
    """The url of an empty database that only this test uses; about 60 ms to make and drop."""
    with postgres_server.fresh_database() as url:
        yield url


@pytest.fixture
def private_postgres() -> Iterator[Callable[..., PostgresServer]]:
    """Start servers that only this test uses, to be stopped and started at will.

    Takes the arguments of ``PostgresServer``; each server costs about half a second.
    """
    servers: list[PostgresServer] = []

    def start(**arguments: dict[str, str]) -> PostgresServer:
        server = PostgresServer(**arguments)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()
