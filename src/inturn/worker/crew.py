"""A crew: a parent that starts worker processes, starts those again that die, and ends with them.

The parent imports nothing of the app's and touches no store, so that nothing in a job harms it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from functools import partial
from time import monotonic

import msgspec

from inturn.log import log_worker_event
from inturn.model import bounds
from inturn.model.admissible import check_name
from inturn.model.worker_events import (
    Counts,
    Listener,
    MemberDied,
    Started,
    Stopped,
    Stopping,
    StoppingNow,
    StoreBack,
    StoreTroubled,
    WorkerEvent,
)
from inturn.policy.raised import describe
from inturn.policy.restart import AWAY_SECONDS, died_young, restart_seconds
from inturn.worker.herald import HURRIED_SECONDS_MAX, TOLD_SECONDS_MAX, Herald
from inturn.worker.leaving import end_process, replace_lost_streams
from inturn.worker.line import Begin, Stop, StopNow, Up
from inturn.worker.member import Member, how_ended
from inturn.worker.pulse import Health
from inturn.worker.settings import WorkSettings
from inturn.worker.shift import LAST_SECONDS_MAX
from inturn.worker.signals import Signalled, heard_here

KILL_SECONDS = LAST_SECONDS_MAX + 1.0  # a member ends itself before that, unless it is stopped
STARTS_DIGITS_MAX = 9  # of how often a place was taken anew, which is part of a worker's name
FAILED = 1


class Crew:
    """So many processes, each with a worker of its own.

    The first is started alone: what keeps one from working (an import, the store) is then said
    once, and no other is started. Later on, one that dies is started again for ever: also in a
    drain, where another takes over what it had in hand. So is one that could not be started. For
    one that finds the store away that is said once, and once when it is back.
    """

    def __init__(
        self,
        settings: WorkSettings,
        *,
        processes: int,
        command: Sequence[str],
        listener: Listener,
        as_json: bool,
        debug: bool,
    ) -> None:
        room = len(f"-{processes}") + len(".") + STARTS_DIGITS_MAX
        check_name("name of a crew", settings.name, bounds.WORKER_CHARS_MAX - room)
        self._settings, self._processes, self._command = settings, processes, command
        self._herald = Herald((log_worker_event, listener))
        self._as_json, self._debug = as_json, debug
        self._members: dict[int, Member] = {}
        self._counts = Counts()  # of processes that are gone
        self._died = 0  # of them, those that may have done more than they could report
        self._away_since: dict[int, float] = {}  # in which places the store is waited for
        self._signalled = Signalled()
        self._code = 0
        self._began = monotonic()
        self._stopped = asyncio.Event()
        self._first_is_up = asyncio.Event()

    async def run(self) -> int:
        """Work until told to stop; return what to leave with."""
        loop = asyncio.get_running_loop()
        for number in heard_here():
            loop.add_signal_handler(number, self.signalled, number)
        keeping = [asyncio.create_task(self._keep(1))]
        coming = asyncio.create_task(self._first_is_up.wait())
        await asyncio.wait([keeping[0], coming], return_when=asyncio.FIRST_COMPLETED)
        if self._first_is_up.is_set():
            keeping += [asyncio.create_task(self._keep(n)) for n in range(2, self._processes + 1)]
        coming.cancel()
        await asyncio.gather(*keeping)
        if self._first_is_up.is_set():
            self._tell(
                Stopped(
                    worker=self._settings.name,
                    counts=self._counts,
                    seconds=monotonic() - self._began,
                    members_died=self._died,
                )
            )
        if not self._herald.is_told(HURRIED_SECONDS_MAX if self._code else TOLD_SECONDS_MAX):
            end_process(self._code)  # Python itself would wait for who reads it
        replace_lost_streams()
        return self._code

    def signalled(self, number: signal.Signals) -> None:
        """Hear a signal: stop; the second time, at once; the third, kill."""
        name, why = self._settings.name, number.name
        self._stopped.set()
        match self._signalled.count(number):
            case 0:
                pass  # it was heard already
            case 1:
                running = sum(member.running for member in self._members.values())
                self._order(Stop(why))
                self._tell(Stopping(worker=name, why=why, running=running))
            case 2:
                self._code = 128 + number
                asyncio.get_running_loop().call_later(KILL_SECONDS, self._kill)
                self._order(StopNow(why))
                self._tell(StoppingNow(worker=name, why=why))
            case _:
                self._kill()

    def health(self) -> Health:
        """Judge by the worst of the members."""
        now = monotonic()
        if len(self._members) < self._processes:
            return Health(healthy=False, why="not all of its processes have begun")
        for member in self._members.values():
            health = member.health(now)
            if not health.healthy:
                return Health(healthy=False, why=f"worker {member.name}: {health.why}")
        return Health(healthy=True)

    async def _keep(self, number: int) -> None:
        """Have a process in one place, until the crew stops."""
        starts, young_deaths = 0, 0
        while not self._stopped.is_set():
            starts += 1
            member = self._members[number] = Member(
                self._name(number, starts), partial(self._is_up, number)
            )
            settings = msgspec.structs.replace(
                self._settings,
                name=member.name,
                heir_of=self._name(number, 1) if starts > 1 else None,
            )
            is_up = self._first_is_up.is_set()
            begin = Begin(settings, self._as_json, self._debug, crew_is_up=is_up)
            try:
                code = await member.live(self._command, begin)
            except (OSError, RuntimeError) as error:  # no more files, processes, memory, threads
                if not is_up:
                    raise
                young_deaths = died_young(0.0, young_deaths)
                self._tell_not_started(member, error, restart_seconds(young_deaths))
                await self._pause(restart_seconds(young_deaths))
                continue
            self._counts.add(member.counts)
            self._died += member.is_up and not (member.is_finished or member.is_emptied)
            member.counts, member.running = Counts(), 0
            if self._ends_with(member, code):
                return
            if member.no_store is not None:
                self._tell_away(number, member.name, member.no_store)
                await self._pause(AWAY_SECONDS)
                continue
            young_deaths = died_young(member.lived_seconds(monotonic()), young_deaths)
            self._tell_died(member, code, restart_seconds(young_deaths))
            await self._pause(restart_seconds(young_deaths))

    def _ends_with(self, member: Member, code: int) -> bool:
        """Decide whether a process that ended is the end of its place in the crew."""
        if self._stopped.is_set():
            if member.is_up and (code or not member.is_finished):
                self._code = self._code or FAILED
            return True
        if not member.is_up and not self._first_is_up.is_set():
            if not member.has_complained:  # killed, or ended by its module, with whatever code
                self._tell_died(member, code, None)
            self._code = code if code > 0 else FAILED
            return True
        if self._settings.until_empty and (member.is_finished or member.is_emptied):
            if not member.is_finished:  # ended by its own stop hooks: another would be, too
                self._tell_died(member, code, None)
            if code or not member.is_finished:  # of a hook that failed at its end
                self._code = self._code or FAILED
            return True
        return False

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than the crew works."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            pass

    def _tell_away(self, number: int, worker: str, why: str) -> None:
        if number not in self._away_since:
            self._away_since[number] = monotonic()
            self._tell(StoreTroubled(worker=worker, error=why))

    def _tell_died(self, member: Member, code: int, seconds: float | None) -> None:
        how = how_ended(code)
        if not member.is_up:
            how += ", before it had begun to work"
        elif not (code or member.is_finished):
            how += ", though it had not finished"
        if member.unread is not None:
            how += f", for its reports could not be read: {member.unread}"
        self._tell(MemberDied(worker=member.name, pid=member.pid, how=how, restart_seconds=seconds))

    def _tell_not_started(self, member: Member, error: Exception, seconds: float) -> None:
        how = f"could not be started: {describe(error)}"
        self._tell(MemberDied(worker=member.name, pid=0, how=how, restart_seconds=seconds))

    def _is_up(self, number: int, up: Up) -> None:
        if not self._first_is_up.is_set():
            self._first_is_up.set()
            self._tell(self._started(up.started))
        since = self._away_since.pop(number, None)
        if since is not None:
            self._tell(StoreBack(worker=up.started.worker, seconds=monotonic() - since))

    def _started(self, first: Started) -> Started:
        return msgspec.structs.replace(
            first, worker=self._settings.name, processes=self._processes, pid=os.getpid()
        )

    def _name(self, number: int, starts: int) -> str:
        """Name a worker for its crew and its place; another that takes the place, anew."""
        again = f".{starts}" if starts > 1 else ""
        return f"{self._settings.name}-{number}{again}"

    def _order(self, order: Stop | StopNow) -> None:
        for member in self._members.values():
            member.order(order)

    def _kill(self) -> None:
        for member in self._members.values():
            member.kill()

    def _tell(self, event: WorkerEvent) -> None:
        """Have an event told beside this loop, which has signals to hear."""
        self._herald.tell(event)
