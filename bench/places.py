"""Where one run of one side keeps its jobs: a fresh database, Redis or file."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psycopg

from bench.compare import Bench
from bench.files import empty_file, empty_store
from bench.peers.peer import Fsync, Peer
from bench.processor import used_by_server, used_seconds
from bench.redis_server import RedisServer
from bench.server import empty_database, tidy


class Place(Protocol):
    """A fresh place for jobs."""

    @property
    def url(self) -> str:
        """Where the peer's program finds it."""
        ...

    def count(self, question: str) -> int:
        """Ask for a number."""
        ...

    def tidy(self) -> None:
        """Do what the place would do by itself, by and by, after it was filled."""
        ...

    def used_seconds(self) -> float | None:
        """Return the processor time of its server so far; None if that is elsewhere."""
        ...


@dataclass(frozen=True, slots=True)
class Database:
    """A database of PostgreSQL."""

    url: str

    def count(self, question: str) -> int:
        """Ask in SQL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(question.encode()).fetchone()
            assert row is not None
            return int(row[0])

    def tidy(self) -> None:
        """Vacuum and analyze."""
        tidy(self.url)

    def used_seconds(self) -> float | None:
        """Return what the server's processes have used."""
        return used_by_server(self.url)


@dataclass(frozen=True, slots=True)
class Redis:
    """A Redis of its own."""

    server: RedisServer

    @property
    def url(self) -> str:
        """Where it is."""
        return self.server.url

    def count(self, question: str) -> int:
        """Add up the answers to commands, one a line."""
        return sum(self.server.ask(command) for command in question.splitlines())

    def tidy(self) -> None:
        """Nothing has to be done."""

    def used_seconds(self) -> float | None:
        """Return what the server has used."""
        return used_seconds(self.server.pid)


@dataclass(frozen=True, slots=True)
class File:
    """A file of SQLite."""

    path: Path

    @property
    def url(self) -> str:
        """Where it is."""
        return f"sqlite:///{self.path}"

    def count(self, question: str) -> int:
        """Ask in SQL."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as file:
            return int(file.execute(question).fetchone()[0])

    def tidy(self) -> None:
        """Write the log back into the file."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as file:
            file.execute("pragma wal_checkpoint(truncate)")

    def used_seconds(self) -> float | None:
        """There is no server."""
        return 0.0


def stores(bench: Bench) -> dict[str, Callable[[], contextlib.AbstractContextManager[str]]]:
    """Return how to make an empty store of each sort, which yields its URL."""
    return {"sqlite": empty_store, "postgres": lambda: empty_database(bench.server)}


@contextlib.contextmanager
def place(bench: Bench, peer: Peer, fsync: Fsync = "everysec") -> Iterator[Place]:
    """Make a place of the kind that a peer keeps its jobs in."""
    match peer.broker:
        case "postgres":
            with empty_database(bench.server) as url:
                yield Database(url)
        case "redis":
            with RedisServer(fsync) as server:
                yield Redis(server)
        case "sqlite":
            with empty_file() as path:
                yield File(path)
