"""A process of ``inturn work --processes``, started by its supervisor and not by people."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time

import msgspec

from inturn.cli.exits import explained
from inturn.cli.journal import Journal
from inturn.model.errors import InturnError
from inturn.model.worker_events import Started, WorkerEvent
from inturn.worker.supervisor import Begin, Report, line
from inturn.worker.work_process import STOPPED_AT_ONCE, WorkProcess

REPORT_SECONDS = 0.5
ORPHANED = "its parent is gone"


def main() -> None:
    """Work as the supervisor says, and leave with what a worker of its own would."""
    connection = _take_stdin()
    with connection.makefile("rb") as lines:
        first = lines.readline()
    if not first:  # the supervisor is gone already
        return
    begin = msgspec.json.decode(first, type=Begin)
    member = _Member(connection, begin)
    code = 0
    try:
        member.run()
    except InturnError as error:
        code = explained(error)
    member.leave(code)
    sys.exit(code)


class _Member:
    """Tells the supervisor how the worker does; when there is none any more, stops the worker."""

    def __init__(self, connection: socket.socket, begin: Begin) -> None:
        self._connection, self._settings = connection, begin.settings
        self._journal = Journal(as_json=begin.as_json, is_member=True, keeps_output=True)
        self._process: WorkProcess | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        """Work until told to stop."""
        self._process = WorkProcess(self._settings, self._hear, is_member=True)
        self._journal.open_log()
        threading.Thread(target=self._report, name="inturn-reports", daemon=True).start()
        self._process.run()

    def leave(self, code: int) -> None:
        """Report for the last time, and let the process end."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._send(self._process)
            sys.stdout.flush()
            self._process.leave(code)

    def _hear(self, event: WorkerEvent) -> None:
        self._journal(event)
        if isinstance(event, Started) and self._process is not None:
            with contextlib.suppress(OSError):
                self._send(self._process, event)

    def _report(self) -> None:
        process, seconds = self._process, self._settings.lease_seconds
        assert process is not None
        try:
            while True:
                self._send(process)
                time.sleep(REPORT_SECONDS)
        except OSError:
            # Nobody is left who could tell it to hurry, and a job may never end.
            process.stop(ORPHANED, seconds_max=seconds)
            time.sleep(seconds)
            process.stop_now(ORPHANED, STOPPED_AT_ONCE)

    def _send(self, process: WorkProcess, started: Started | None = None) -> None:
        worker = process.worker
        health = worker.health.read()
        report = Report(health, worker.record.counts, worker.running, started)
        with self._lock:
            self._connection.sendall(line(report))


def _take_stdin() -> socket.socket:
    """Take over standard input, so that no handler reads from it or hands it on."""
    connection = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    connection.setblocking(True)  # whatever timeout new sockets have
    return connection


if __name__ == "__main__":
    main()
