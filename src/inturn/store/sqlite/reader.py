"""The readers: threads with connections that cannot write, so that reads hold up no writer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

from inturn.model.clock import Clock
from inturn.store.sqlite.faults import not_open, store_error
from inturn.store.sqlite.rows import micros
from inturn.store.sqlite.writer import Call, Result, Work, answer

READERS = 3  # so that a quick read need not wait behind a long list


class Readers:
    """Run reads, each on a snapshot of its own."""

    def __init__(self, connections: Sequence[sqlite3.Connection], path: str, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._closing = False
        self._threads = [
            threading.Thread(
                target=self._run, args=[one], name=f"inturn reader {path}", daemon=True
            )
            for one in connections
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Work[Result]) -> Result:
        """Run a work on a snapshot of the tables and return its result."""
        if self._closing:
            raise not_open(self._path)
        call = Call(work)
        self._calls.put(call)
        return await call.outcome()

    def close(self) -> None:
        """Finish the reads that came before this and close the connections. Blocks."""
        self._closing = True
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self, connection: sqlite3.Connection) -> None:
        while (call := self._calls.get()) is not None:
            if call.take():
                self._read(connection, call)
                answer([call])
        connection.close()

    def _read(self, connection: sqlite3.Connection, call: Call[Any]) -> None:
        try:
            connection.execute("begin")
            call.result = call.work(connection, micros(self._clock.now()))
        except sqlite3.Error as error:
            call.error = store_error(error, self._path)
        except Exception as error:
            call.error = error
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
