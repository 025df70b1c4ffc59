"""The child processes of a worker: started when needed, kept for the next job, never shared."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from math import inf
from time import monotonic
from typing import Any

import msgspec

from inturn.model.errors import ChildDied, LeaseLost, StoreError
from inturn.policy.verdict import Verdict
from inturn.queue.context import Way
from inturn.queue.job import Job
from inturn.queue.places import unfindable
from inturn.worker import wire
from inturn.worker.guard import Guard
from inturn.worker.program import Program, check_found
from inturn.worker.watch import Watch, took_too_long

IDLE_SECONDS = 60.0  # a child without work is ended after this
END_SECONDS_MAX = 5.0  # for one that was asked to end
START_SECONDS_MAX = 120.0  # for one that imports its modules
REAP_SECONDS_MAX = 5.0  # for those that were killed with one to be gone
REAP_LOOK_SECONDS = 0.01
DRAIN_SECONDS = 0.5  # for the last words of one that is gone

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from inturn.worker.child import main; main(int(sys.argv[1]), int(sys.argv[3]))"
)


class Children:
    """As many child processes as attempts that run at once, each with one job at a time."""

    def __init__(self, jobs: Sequence[Job[Any, Any]], watch: Watch) -> None:
        self._jobs, self._watch = jobs, watch
        self.guard = Guard()
        self._folder = _here()
        self._idle: dict[Child, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the first child, and refuse jobs that it cannot find."""
        if self._jobs:
            for job in self._jobs:
                check_found(job)
            await self.guard.start()
            self.keep(await self._new())

    async def stop(self) -> None:
        """End every child; none has a job any more."""
        for child in list(self._idle):
            self._end(child)
        if self._ending:
            await asyncio.wait(self._ending)
        await self.guard.stop()

    async def take(self) -> Child:
        """Take a child that has no job; start one if there is none, which may take long."""
        while self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            if child.lives:
                return child
            self._end(child)
        return await self._new()

    def keep(self, child: Child) -> None:
        """Keep a child for the next job."""
        loop = asyncio.get_running_loop()
        self._idle[child] = loop.call_later(IDLE_SECONDS, self._end, child)

    async def attempt(self, child: Child, begin: wire.Begin, way: Way) -> Verdict:
        """Have a child make an attempt; return its verdict, which is to give the job back if the
        child found that the lease had run out.

        Raises ``TimeoutError`` when it was killed at its timeout, ``ChildDied`` when it died.
        """
        seconds = begin.job.timeout_seconds
        end = Kill(child, begin.job.kind, inf if seconds is None else seconds)
        timer = asyncio.timeout(seconds)
        try:
            # Both, for a handler may block the loop, and who reads the log the watch.
            with self._watch.minding(end):
                async with timer:
                    ended = await child.attempt(begin, way)
            if end.is_struck:  # as it ended; nobody strikes it any more
                raise TimeoutError
        except BaseException as error:
            await child.kill()
            is_late = timer.expired() or end.is_struck
            if is_late and isinstance(error, TimeoutError | ChildDied):
                raise took_too_long(end.seconds) from None
            raise
        self.keep(child)
        return ended.verdict

    def _end(self, child: Child) -> None:
        if (timer := self._idle.pop(child, None)) is not None:
            timer.cancel()
        ending = asyncio.get_running_loop().create_task(child.end(), name="inturn-child-ends")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _new(self) -> Child:
        child = await Child.start(self.guard, _if_there(self._folder))
        try:
            modules = {job.kind: job.module for job in self._jobs}
            [store] = {job.app.address for job in self._jobs}
            async with asyncio.timeout(START_SECONDS_MAX):
                ready = await child.welcome(wire.Welcome(Program.here(), modules, store))
            for kind, why in ready.missing.items():
                raise unfindable(kind, why)
        except BaseException as error:
            await child.kill()
            if isinstance(error, TimeoutError):
                raise ChildDied(f"was not ready after {START_SECONDS_MAX:g} s") from error
            raise
        return child


class Kill:
    """The end of a child at its job's timeout, from the thread of a watch."""

    said = True  # a process that was killed does not go on

    def __init__(self, child: Child, kind: str, seconds: float) -> None:
        self._child, self.kind, self.seconds = child, kind, seconds
        self.due_at = monotonic() + seconds
        self.is_struck = False

    def strike(self) -> None:
        """Kill the child."""
        if not self.is_struck:
            self.is_struck = True
            self._child.kill_now()


class Child:
    """One child process, and the line to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer

    @classmethod
    async def start(cls, guard: Guard, folder: str | None) -> Child:
        """Start a process of its own session, so that it can be killed with all it started.

        It is spawned and not forked, for a worker has threads, and shares nothing with it but
        standard output and error. It begins where the worker did, for what it imports and opens
        may be named from there.
        """
        ours, theirs = socket.socketpair()
        theirs.setblocking(True)  # in the child, too: an app may give every new socket a timeout
        path = msgspec.json.encode(sys.path)
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
                    *("-c", _BOOT, str(theirs.fileno()), path.decode(), str(os.getpid())),
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    cwd=folder,
                )
            except BaseException:
                writer.close()
                raise
        guard.watch(process)  # before it can run anything of an app's
        return cls(process, reader, writer)

    @property
    def lives(self) -> bool:
        """Whether it could take a job."""
        return self._process.returncode is None

    async def welcome(self, welcome: wire.Welcome) -> wire.Ready:
        """Tell a new child what it needs to know; wait until it is ready."""
        self._writer.write(wire.written(welcome))
        ready = await self._hear()
        assert isinstance(ready, wire.Ready)
        return ready

    async def attempt(self, begin: wire.Begin, way: Way) -> wire.Ended:
        """Have it make an attempt; answer what the handler asks meanwhile."""
        self._writer.write(wire.written(begin))
        while not isinstance(word := await self._hear(), wire.Ended):
            assert isinstance(word, wire.Ask)
            self._writer.write(wire.written(await _answer(word, way)))
        return word

    async def kill(self) -> None:
        """End it now, with all that its handler has started."""
        self.kill_now()
        await self._process.wait()
        self._writer.close()
        await self._reap()

    async def end(self) -> None:
        """Let it end by itself, or else end it."""
        self._writer.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS_MAX)
        except TimeoutError:
            await self.kill()

    def kill_now(self) -> None:
        """Kill it, with all that its handler has started, and wait for nothing."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _reap(self) -> None:
        """Wait for those that were killed with it, if they have become children of this process.

        To the first process of a container they do, and nobody else would wait for them. They are
        known by their group, so that no child of anyone else's is waited for here.
        """
        with contextlib.suppress(ChildProcessError, TimeoutError):
            async with asyncio.timeout(REAP_SECONDS_MAX):
                while True:
                    pid, _ = os.waitpid(-self._process.pid, os.WNOHANG)  # noqa: ASYNC222
                    if not pid:
                        await asyncio.sleep(REAP_LOOK_SECONDS)

    async def _hear(self) -> wire.Word:
        """Wait for a word. The process may be gone while something that it forked keeps the line
        open, so its end is waited for as well.
        """
        word = asyncio.ensure_future(self._read())
        gone = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait([word, gone], return_when=asyncio.FIRST_COMPLETED)
            if not word.done():
                await asyncio.wait([word], timeout=DRAIN_SECONDS)
            if word.done() and (heard := word.result()) is not None:
                return heard
            raise ChildDied(_how(await gone))
        finally:
            word.cancel()
            gone.cancel()

    async def _read(self) -> wire.Word | None:
        try:
            head = await self._reader.readexactly(wire.LENGTH_BYTES)
            return wire.read(await self._reader.readexactly(int.from_bytes(head)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


async def _answer(ask: wire.Ask, way: Way) -> wire.Answer:
    try:
        if ask.verb == "heartbeat":
            await way.heartbeat()
        else:
            await way.progress(ask.fraction, ask.note)
    except LeaseLost:
        return wire.Answer(ask.number, is_lost=True)
    except StoreError as error:
        return wire.Answer(ask.number, error=str(error))
    return wire.Answer(ask.number)


def _here() -> str | None:
    """Return the folder that this process is in, unless someone removed it."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _if_there(folder: str | None) -> str | None:
    return folder if folder is not None and os.path.isdir(folder) else None


def _how(code: int) -> str:
    """Say how a process ended, by the code it left."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed by signal {-code}"
