"""``inturn work --processes N``: starts worker processes, starts those again that die.

The supervisor imports nothing of the app's and touches no store, so that no job harms it. It tells
a process what to do by signals: SIGTERM to finish what runs, SIGQUIT to give it back. A process
reports over a socket, its standard input, a JSON document a line. When the supervisor dies,
however it dies, the socket is closed, and then the processes stop too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Sequence
from time import monotonic

import msgspec

from inturn.model.worker_events import (
    Counts,
    Listener,
    MemberDied,
    Started,
    Stopped,
    Stopping,
    StoppingNow,
)
from inturn.policy.raised import describe
from inturn.policy.restart import died_young, restart_seconds
from inturn.worker.health import Health
from inturn.worker.processes import how_ended
from inturn.worker.record import Record
from inturn.worker.settings import WorkSettings
from inturn.worker.stop_signals import StopSignals
from inturn.worker.work_process import END_SECONDS_MAX, end_process, log_now_and_then

KILL_SECONDS = END_SECONDS_MAX + 1.0  # a process ends itself before that, unless it is stopped
SILENCE_SECONDS_MAX = 5.0  # of a process that lives: it reports twice a second
REPORT_BYTES_MAX = 1 << 30  # one names every kind of its app
FAILED = 1


class Begin(msgspec.Struct, frozen=True):
    """To a process, on its first line: what to do, and whether to write events as JSON."""

    settings: WorkSettings
    as_json: bool


class Report(msgspec.Struct, frozen=True):
    """From a process: how it does, what became of its jobs so far, and once, that it has begun."""

    health: Health
    counts: Counts
    running: int
    started: Started | None = None


_reports = msgspec.json.Decoder(Report)


def line(document: Begin | Report) -> bytes:
    """Return what goes over the socket."""
    return msgspec.json.encode(document) + b"\n"


class Supervisor:
    """Keeps so many processes, each with a worker of its own.

    The first is started alone: what keeps one from working (an import, the store) is then said
    once, and no other is started. Later, one that dies is started again, for ever; but not in a
    drain, which is then to be run again for what was in its hands.
    """

    def __init__(
        self,
        settings: WorkSettings,
        *,
        processes: int,
        command: Sequence[str],
        listener: Listener,
        as_json: bool,
    ) -> None:
        self._settings, self._count, self._command = settings, processes, command
        self._record = Record(settings.name, [listener])
        self._as_json = as_json
        self._processes: dict[int, WorkerProcess] = {}
        self._counts = Counts()  # of processes that are gone
        self._died = 0
        self._code = 0
        self._began_at = monotonic()
        self._loop: asyncio.AbstractEventLoop
        self._stopped, self._first_has_begun = asyncio.Event(), asyncio.Event()
        self.order: signal.Signals | None = None  # what every process was told

    async def run(self) -> int:
        """Work until told to stop; return what to leave with."""
        self._loop = asyncio.get_running_loop()
        with StopSignals() as signals:
            threading.Thread(target=self._obey, args=[signals], daemon=True).start()
            keeping = [asyncio.create_task(self._keep(1))]
            begun = asyncio.create_task(self._first_has_begun.wait())
            await asyncio.wait([keeping[0], begun], return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()
            if self._first_has_begun.is_set():
                keeping += [asyncio.create_task(self._keep(n)) for n in range(2, self._count + 1)]
            log = log_now_and_then(self._settings, self._all_counts)
            counting = asyncio.create_task(log)
            await asyncio.gather(*keeping)
            counting.cancel()
        if self._first_has_begun.is_set():
            seconds = monotonic() - self._began_at
            self._record.tell(
                Stopped(
                    worker=self._settings.name,
                    counts=self._counts,
                    seconds=seconds,
                    members_died=self._died,
                )
            )
        return self._code

    def read(self) -> Health:
        """Judge by the worst of the processes."""
        now = monotonic()
        if len(self._processes) < self._count:
            return Health(healthy=False, why="not all of its processes have begun")
        for process in self._processes.values():
            health = process.health(now)
            if not health.healthy:
                return Health(healthy=False, why=f"worker {process.name}: {health.why}")
        return Health(healthy=True)

    def has_begun(self, first: Started) -> None:
        """Hear from a process that it works."""
        if not self._first_has_begun.is_set():
            self._first_has_begun.set()
            name = self._settings.name
            changes = {"worker": name, "processes": self._count, "pid": os.getpid()}
            self._record.tell(msgspec.structs.replace(first, **changes))

    async def _keep(self, number: int) -> None:
        """Have a process in one place, until told to stop."""
        starts, young_deaths = 0, 0
        while not self._stopped.is_set():
            starts += 1
            process = self._processes[number] = WorkerProcess(self._name(number, starts), self)
            code, how = await self._live(process)
            self._counts.add(process.counts)
            process.counts, process.running = Counts(), 0
            if self._is_over(process, code, how):
                return
            young_deaths = died_young(process.lived_seconds(), young_deaths)
            seconds = restart_seconds(young_deaths)
            self._tell_died(process, how, seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()

    async def _live(self, process: WorkerProcess) -> tuple[int, str]:
        """Run a process to its end; return what it left with, and how it ended."""
        settings = msgspec.structs.replace(self._settings, name=process.name)
        try:
            code = await process.live(self._command, Begin(settings, self._as_json))
        except (OSError, RuntimeError) as error:  # no more files, processes, memory, threads
            if not self._first_has_begun.is_set():
                raise
            return FAILED, f"could not be started: {describe(error)}"
        if not process.has_begun:
            return code, f"{how_ended(code)}, before it had begun to work"
        unasked = ", though nobody had told it to stop" if not code else ""
        return code, how_ended(code) + unasked

    def _is_over(self, process: WorkerProcess, code: int, how: str) -> bool:
        """Decide whether none is to take the place of a process that has ended, and say why."""
        if self._stopped.is_set():
            if code and process.has_begun:
                self._code = self._code or FAILED
                self._died += code < 0
            return True
        if not self._first_has_begun.is_set():
            self._code = code if code > 0 else FAILED
            if code <= 0:  # else it has said itself what was wrong
                self._tell_died(process, how, None)
            return True
        if self._settings.drain and process.has_begun and not code:
            return True
        self._died += process.has_begun
        if self._settings.drain:
            self._code = FAILED
            self._tell_died(process, f"{how}; run the drain again for what it had in hand", None)
        return self._settings.drain

    def _tell_died(self, process: WorkerProcess, how: str, seconds: float | None) -> None:
        pid = process.pid
        self._record.tell(
            MemberDied(worker=process.name, pid=pid, how=how, restart_seconds=seconds)
        )

    def _name(self, number: int, starts: int) -> str:
        """Name a worker for its place; another that takes the place, anew."""
        again = f".{starts}" if starts > 1 else ""
        return f"{self._settings.name}-{number}{again}"

    def _all_counts(self) -> Counts:
        counts = Counts()
        for one in (self._counts, *(process.counts for process in self._processes.values())):
            counts.add(one)
        return counts

    # Signals, heard on a thread of their own

    def _obey(self, signals: StopSignals) -> None:
        for number, times in signals.heard():
            self.signalled(number, times)

    def signalled(self, number: signal.Signals, times: int) -> None:
        """Stop; the second time, at once; the third, kill."""
        name, why = self._settings.name, number.name
        if times == 1:
            running = sum(process.running for process in list(self._processes.values()))
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._give(signal.SIGTERM)
            self._record.tell_aside(Stopping(worker=name, why=why, running=running))
        elif times == 2:
            self._code = 128 + number
            self._give(signal.SIGQUIT)
            last = threading.Timer(KILL_SECONDS, self._kill)
            last.daemon = True
            last.start()
            self._record.tell_aside(StoppingNow(worker=name, why=why))
        else:
            self._kill()
            end_process(128 + number)

    def _give(self, order: signal.Signals) -> None:
        self.order = order
        for process in list(self._processes.values()):
            process.send(order)

    def _kill(self) -> None:
        for process in list(self._processes.values()):
            process.send(signal.SIGKILL)


class WorkerProcess:
    """One process, and what it last reported."""

    def __init__(self, name: str, supervisor: Supervisor) -> None:
        self.name = name
        self.counts = Counts()
        self.running = 0
        self.has_begun = False
        self.pid = 0
        self._supervisor = supervisor
        self._began_at = self._heard_at = monotonic()
        self._health = Health(healthy=False, why="it has not begun to work yet")
        self._process: asyncio.subprocess.Process | None = None

    async def live(self, command: Sequence[str], begin: Begin) -> int:
        """Start the process and wait for its end; return what it left with."""
        mine, its = socket.socketpair()
        try:
            with its:
                # A group of its own: Ctrl-C is for the supervisor, which passes it on, once.
                self._process = await asyncio.create_subprocess_exec(
                    *command, stdin=its.fileno(), process_group=0
                )
        except BaseException:
            mine.close()
            raise
        self.pid = self._process.pid
        reader, writer = await asyncio.open_connection(sock=mine, limit=REPORT_BYTES_MAX)
        writer.write(line(begin))
        if self._supervisor.order is not None:  # given before there was a process
            self.send(self._supervisor.order)
        listening = asyncio.create_task(self._listen(reader))
        code = await self._process.wait()
        # What it said last is still on the line. A child of its own may hold the line open.
        await asyncio.wait([listening], timeout=1.0)
        listening.cancel()
        writer.close()
        self._health = Health(healthy=False, why=f"its process {how_ended(code)}")
        return code

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal, if it is there. From any thread."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def lived_seconds(self) -> float:
        """Return how long ago it was started."""
        return monotonic() - self._began_at

    def health(self, now: float) -> Health:
        """Return what it says of itself, unless it has fallen silent."""
        silence = now - self._heard_at
        if self._health.healthy and silence > SILENCE_SECONDS_MAX:
            return Health(healthy=False, why=f"nothing was heard of it for {silence:.0f} s")
        return self._health

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while text := await reader.readline():
                report = _reports.decode(text)
                self._heard_at = monotonic()
                self._health, self.running = report.health, report.running
                self.counts = report.counts
                if report.started is not None:
                    self.has_begun = True
                    self._supervisor.has_begun(report.started)
