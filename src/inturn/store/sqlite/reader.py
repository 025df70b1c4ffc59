"""The reader: one thread with a connection that cannot write, so that reads hold up no writer."""

from __future__ import annotations

import sqlite3
import threading
from queue import SimpleQueue
from typing import Any

from inturn.model.clock import Clock
from inturn.store.sqlite.faults import not_open, store_error
from inturn.store.sqlite.times import micros
from inturn.store.sqlite.writer import Call, Result, Work, answer


class Reader:
    """Runs one read after another, each on a snapshot of its own."""

    def __init__(self, connection: sqlite3.Connection, path: str, clock: Clock) -> None:
        self._connection, self._path, self._clock = connection, path, clock
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"inturn reader {path}", daemon=True)
        self._thread.start()

    async def run(self, work: Work[Result]) -> Result:
        """Run a work on a snapshot of the tables and return its result."""
        if self._closing:
            raise not_open(self._path)
        call = Call(work)
        self._calls.put(call)
        return await call.outcome()

    def close(self) -> None:
        """Finish the reads that came before this and close the connection. Blocks."""
        self._closing = True
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            if call.take():
                self._read(call)
                answer([call])
        self._connection.close()

    def _read(self, call: Call[Any]) -> None:
        connection = self._connection
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
