"""The faults: what may go wrong, each by its name, and who makes it happen."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Protocol

import msgspec

from inturn.model.errors import BadInput, StoreBusy, StoreUnavailable
from inturn.policy.raised import describe
from inturn.verify.crew import Crew, Member
from inturn.verify.history import Failed, Fault, History, Mended
from inturn.verify.plan import PlannedFault
from inturn.verify.points import NOWHERE, PRODUCER_POINTS, STILL_POINTS, WORKER_POINTS
from inturn.verify.proxy import Cut, Proxy

CLOCK_SECONDS_MAX = 5.0
STALL_SECONDS_MAX = 0.8
STOP_WORKERS_MIN = 2  # one that stands still, and one that goes on with its jobs
CLOSING_SECONDS = 20.0  # for what lasts, to be mended at the end


_SCHEMES = {"sqlite": ("sqlite:",), "postgresql": ("postgresql:", "postgres:")}


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A sort of fault: what it is, and where it can be."""

    name: str
    what: str
    on: str = "both"  # stores: both, sqlite, postgresql
    needs: str | None = None  # what a run must have been given for it

    @property
    def store_name(self) -> str:
        """The one store that it is for, as people call it; of one for both, nothing."""
        return {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(self.on, "")

    def is_for(self, store: str) -> bool:
        """Whether it can be on the store of a URL."""
        return self.on == "both" or store.startswith(_SCHEMES[self.on])

    @property
    def handler(self) -> str | None:
        """Of a fault that lies in the handlers: which."""
        return self.name.removeprefix("handler-") if self.name.startswith("handler-") else None


KINDS = (
    Kind(name="kill-worker", what="kill -9 of a worker, at any moment"),
    Kind(name="kill-producer", what="kill -9 of a producer, at any moment"),
    Kind(
        name="kill-at",
        what="a process kills itself at a named point: before or after claim, settle, turn, "
        "extend, enqueue, before a commit, in a handler, between a handler and its settle",
    ),
    Kind(
        name="stop-worker",
        what="SIGSTOP of a worker for longer than its lease, then SIGCONT; at any moment, or right "
        "before it settles",
        needs=f"--workers {STOP_WORKERS_MIN} or more, for one has to go on",
    ),
    Kind(
        name="stall",
        what="SIGSTOP of a process for less than a lease; on SQLite it may hold the file's lock: "
        "what a slow disk looks like",
    ),
    Kind(name="kill-backend", what="pg_terminate_backend on the run's own", on="postgresql"),
    Kind(
        name="stop-server",
        what="the database server is stopped, and started again",
        on="postgresql",
        needs="--stop-command and --start-command",
    ),
    Kind(
        name="cut-connection",
        what="a proxy cuts a connection in the middle of a statement, or before its answer",
        on="postgresql",
        needs="one host, reached over TCP, in the store's URL",
    ),
    Kind(name="clock-step", what="the clock of a worker jumps by seconds", on="sqlite"),
    Kind(name="full-disk", what="no file of a process can grow for a while", on="sqlite"),
    Kind(name="handler-raises", what="handlers that fail a few times, and some that always do"),
    Kind(name="handler-exits", what="handlers that end their worker's process"),
    Kind(name="handler-blocks", what="handlers that block the event loop, past their lease, too"),
    Kind(name="handler-eats-memory", what="handlers that eat memory until there is no more"),
)
NAMES = tuple(kind.name for kind in KINDS)


class Switch(Protocol):
    """Stops and starts the database server."""

    def choose(self, random: Random) -> str:
        """Choose a way to stop it."""
        ...

    async def stop(self, how: str) -> None:
        """Stop it in this way."""
        ...

    async def start(self) -> None:
        """Start it, and return when it answers."""
        ...


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What an injector can lay its hands on, beside the crew."""

    proxy: Proxy | None = None
    switch: Switch | None = None
    kill_backends: Callable[[int], Awaitable[int]] | None = None  # how many to kill → were killed


def is_possible(name: str, *, workers: int, has_switch: bool, has_server: bool) -> bool:
    """Whether a fault has what it needs; ``has_server``: one that a proxy can stand before."""
    has = {
        "stop-worker": workers >= STOP_WORKERS_MIN,
        "stop-server": has_switch,
        "cut-connection": has_server,
    }
    return has.get(name, True)


class Injector:
    """Makes one fault after another, as planned; each draws its details by itself.

    Whatever a fault draws, it draws before it looks who is alive and before it waits, so that the
    same seed draws the same again.
    """

    def __init__(
        self,
        crew: Crew,
        history: History,
        plan: Iterable[PlannedFault],
        *,
        reach: Reach,
        lease_seconds: float,
    ) -> None:
        self._crew, self._history, self._plan = crew, history, plan
        self._reach, self._lease_seconds = reach, lease_seconds
        self._lasting: set[asyncio.Task[None]] = set()
        self._error: BadInput | None = None  # of a command that does not do what it is for
        self._makers: dict[str, Callable[[Random], Awaitable[None]]] = {
            "kill-worker": self._kill_worker,
            "kill-producer": self._kill_producer,
            "kill-at": self._kill_at,
            "stop-worker": self._stop_worker,
            "stall": self._stall,
            "kill-backend": self._kill_backend,
            "stop-server": self._stop_server,
            "cut-connection": self._cut_connection,
            "clock-step": self._step_clock,
            "full-disk": self._fill_disk,
        }

    async def run(self, until: asyncio.Event) -> None:
        """Make faults until told to stop; then see that what lasts is mended.

        Raises ``BadInput`` for a command that does not do what it is for. Of any other error the
        history tells: such a run proves less than it was to.
        """
        for planned in self._plan:
            with suppress(TimeoutError):
                async with asyncio.timeout(planned.pause_seconds):
                    await until.wait()
            if until.is_set() or self._error is not None:
                break
            lasting = asyncio.create_task(self._make(planned))
            self._lasting.add(lasting)
            lasting.add_done_callback(partial(self._made, planned.name))
        if self._error is None:
            await until.wait()
        if self._lasting:
            await asyncio.wait(set(self._lasting), timeout=CLOSING_SECONDS)
        if self._error is not None:
            raise self._error

    def _made(self, name: str, lasting: asyncio.Task[None]) -> None:
        self._lasting.discard(lasting)
        if lasting.cancelled() or (error := lasting.exception()) is None:
            return
        if isinstance(error, BadInput):
            self._error = error
        self._history.write(Failed(name=name, error=describe(error)))

    async def _make(self, planned: PlannedFault) -> None:
        await self._makers[planned.name](planned.random())

    # Processes

    async def _kill_worker(self, random: Random) -> None:
        self._kill("kill-worker", _first_living(_shuffled(random, self._crew.workers)))

    async def _kill_producer(self, random: Random) -> None:
        self._kill("kill-producer", _first_living(_shuffled(random, self._crew.producers)))

    def _kill(self, name: str, member: Member | None) -> None:
        if member is not None:
            self._note(name, member.name)
            member.signal(signal.SIGKILL)

    async def _kill_at(self, random: Random) -> None:
        """Arm a point; the process itself writes down that it died there."""
        members = self._crew.producers if random.random() < 0.3 else self._crew.workers
        points = PRODUCER_POINTS if members is self._crew.producers else WORKER_POINTS
        point = random.choice(points)
        if (member := _first_living(_shuffled(random, members))) is not None:
            member.tell(f"die {point}")

    async def _stop_worker(self, random: Random) -> None:
        """Stop a worker at any moment, or right before it would tell the store something."""
        seconds = self._lease_seconds * random.uniform(1.5, 3.0)
        point = random.choice(STILL_POINTS) if random.random() < 0.5 else None
        going = [one for one in _shuffled(random, self._crew.workers) if not one.is_stopped]
        member = _first_living(going)
        if member is None or len(going) < STOP_WORKERS_MIN:
            return
        if point is None:
            await self._pause("stop-worker", member, seconds)
            return
        member.is_stopped = True
        member.tell(f"stop {point}")
        try:
            await asyncio.sleep(seconds)
        finally:
            member.tell(f"stop {NOWHERE}")
            self._crew.resume(member)
        await asyncio.sleep(1.0)
        member.signal(signal.SIGCONT)  # it may have come to the point before it heard the order

    async def _stall(self, random: Random) -> None:
        seconds = random.uniform(0.1, STALL_SECONDS_MAX)
        members = _shuffled(random, (*self._crew.workers, *self._crew.producers))
        member = _first_living([one for one in members if not one.is_stopped])
        if member is not None:
            await self._pause("stall", member, seconds)

    async def _pause(self, name: str, member: Member, seconds: float) -> None:
        target = member.name
        self._note(name, target, f"{seconds:.2f} s")
        self._crew.stop_for_a_while(member)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._crew.resume(member)
            self._history.write(Mended(name=name, target=target))

    async def _step_clock(self, random: Random) -> None:
        step = random.uniform(-CLOCK_SECONDS_MAX, CLOCK_SECONDS_MAX)
        seconds = random.uniform(0.5, 2.0)
        if (member := _first_living(_shuffled(random, self._crew.workers))) is not None:
            member.tell(f"clock {step:.2f}")
            await asyncio.sleep(seconds)
            member.tell("clock 0")

    async def _fill_disk(self, random: Random) -> None:
        seconds = random.uniform(0.3, 1.5)
        members = _shuffled(random, (*self._crew.workers, *self._crew.producers))
        if (member := _first_living(members)) is not None:
            member.tell(f"full-disk {seconds:.2f}")

    # The server

    async def _kill_backend(self, random: Random) -> None:
        assert self._reach.kill_backends is not None
        wanted = random.randint(1, 3)
        with suppress(StoreUnavailable, StoreBusy, TimeoutError):  # it may be down already
            killed = await self._reach.kill_backends(wanted)
            if killed:
                self._note("kill-backend", "server", f"{killed} of them")

    async def _cut_connection(self, random: Random) -> None:
        assert self._reach.proxy is not None
        cuts: tuple[Cut, ...] = ("request", "answer")
        what = random.choice(cuts)
        self._reach.proxy.cut(
            what,
            cutting=lambda: self._note("cut-connection", "proxy", f"in the middle of the {what}"),
        )

    async def _stop_server(self, random: Random) -> None:
        switch = self._reach.switch
        assert switch is not None
        how, seconds = switch.choose(random), random.uniform(0.2, 1.5)
        if any(one.get_name() == "stop-server" for one in self._lasting):
            return
        here = asyncio.current_task()
        assert here is not None
        here.set_name("stop-server")
        self._note("stop-server", "server", how)
        try:
            await switch.stop(how)
            await asyncio.sleep(seconds)
        finally:
            await switch.start()
            self._history.write(Mended(name="stop-server", target="server"))

    def _note(self, name: str, target: str, detail: str = "") -> None:
        self._history.write(Fault(name=name, target=target, detail=detail))


def _shuffled(random: Random, members: Sequence[Member]) -> list[Member]:
    """Return all members in an order that is drawn, alive or not: the first that can be is hit."""
    return random.sample(members, len(members))


def _first_living(members: Iterable[Member]) -> Member | None:
    return next((one for one in members if one.is_alive), None)


class CommandSwitch:
    """A server that is stopped and started by commands of the user's."""

    def __init__(self, stops: Sequence[str], start: str) -> None:
        self._stops, self._start = stops, start

    def choose(self, random: Random) -> str:
        """Choose one of the commands that stop it."""
        return random.choice(self._stops)

    async def stop(self, how: str) -> None:
        """Run a command that stops it."""
        await _run(how)

    async def start(self) -> None:
        """Run the command that starts it."""
        await _run(self._start)


async def _run(command: str) -> None:
    process = await asyncio.create_subprocess_shell(command, stdin=asyncio.subprocess.DEVNULL)
    if code := await process.wait():
        raise BadInput(
            f"the command {command!r} ended with {code}, so that nobody knows whether the server "
            f"runs. Give commands that stop and start it, and end with 0."
        )
