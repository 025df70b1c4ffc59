"""A process of a crew: does what its parent says over the line, and ends when the line does.

Started by ``inturn work --processes``, not by people.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import typer

from inturn.cli.exits import ExitCode, exit_on_error
from inturn.cli.journal import Journal
from inturn.model.errors import StoreError
from inturn.model.worker_events import Started, Stopping, WorkerEvent
from inturn.worker.line import (
    Beat,
    Begin,
    Complained,
    Emptied,
    Finished,
    MemberLine,
    NoStore,
    Order,
    Stop,
    StopNow,
    Up,
)
from inturn.worker.shift import Shift
from inturn.worker.signals import SignalThread

REPORT_SECONDS = 0.5
STOPPED_AT_ONCE = 1
ORPHANED = "its parent is gone"


def main() -> None:
    """Work as the parent says, and leave with what a worker of its own would."""
    line = MemberLine.from_stdin()
    orders = line.orders()
    begin = next(orders, None)
    if not isinstance(begin, Begin):  # the parent is gone already
        return
    member, code = _MemberShift(line, begin), 0
    try:
        with exit_on_error():
            member.run(orders)
    except typer.Exit as end:
        code = end.exit_code
        line.report(Complained())
    sys.stdout.flush()
    member.leave(code)
    sys.exit(code)


class _MemberShift:
    """A shift that reports to a parent and takes its orders. Only a parent can hurry it."""

    def __init__(self, line: MemberLine, begin: Begin) -> None:
        self._line, self._begin = line, begin
        self._journal = Journal(as_json=begin.as_json, is_member=True, keeps_output=True)
        self._shift: Shift | None = None
        self._is_up = False

    def run(self, orders: Iterator[Order]) -> None:
        """Work until told to stop."""
        threading.Thread(
            target=self._obey, args=[orders], name="inturn-orders", daemon=True
        ).start()
        shift = self._shift = Shift(
            self._begin.settings, self._hear, emptied=self._empty, finished=self._finish
        )
        self._journal.open_log()
        threading.Thread(target=self._report, name="inturn-reports", daemon=True).start()
        try:
            with SignalThread(self._signalled):
                shift.run()
        except StoreError as error:
            if self._is_up or not self._begin.crew_is_up:
                raise
            self._line.report(NoStore(str(error)))
            raise typer.Exit(ExitCode.STORE) from None

    def leave(self, code: int) -> None:
        """Let the process end, whatever handlers left in it."""
        if self._shift is not None:
            self._shift.leave(code)

    def _obey(self, orders: Iterator[Order]) -> None:
        for order in orders:
            if self._shift is None:  # still importing: nothing was claimed
                os._exit(0)
            match order:
                case Stop(why):
                    self._shift.stop(why, quietly=True)
                case StopNow(why):
                    self._shift.stop_now(why, code=STOPPED_AT_ONCE, quietly=True)
        if self._shift is None:
            os._exit(0)
        # Nobody is left who could tell it to hurry, and a job may never end.
        seconds = self._begin.settings.lease_seconds
        self._stop(ORPHANED, seconds_max=seconds)
        time.sleep(seconds)
        self._shift.stop_now(ORPHANED, code=STOPPED_AT_ONCE)

    def _signalled(self, number: signal.Signals) -> None:
        """Stop, but never at once: a supervisor may send what the parent passes on as well."""
        self._stop(number.name)

    def _stop(self, why: str, *, seconds_max: float | None = None) -> None:
        assert self._shift is not None
        worker = self._shift.worker
        worker.record.tell(
            Stopping(
                worker=worker.name,
                why=why,
                running=worker.running,
                is_member=True,
                seconds_max=seconds_max,
            )
        )
        self._shift.stop(why, quietly=True)

    def _hear(self, event: WorkerEvent) -> None:
        self._journal(event)
        if isinstance(event, Started):
            self._is_up = True
            self._line.report(Up(event))

    def _empty(self) -> None:
        """Report that nothing is left, for a stop hook may end the process."""
        self._line.report(self._beat())
        self._line.report(Emptied())

    def _finish(self) -> None:
        """Report that all is done, whether or not anyone reads what is printed of it."""
        self._line.report(self._beat())
        self._line.report(Finished())

    def _report(self) -> None:
        while True:
            self._line.report(self._beat())
            time.sleep(REPORT_SECONDS)

    def _beat(self) -> Beat:
        assert self._shift is not None
        worker = self._shift.worker
        return Beat(worker.vitals.health(), worker.record.counts, worker.running)


if __name__ == "__main__":
    main()
