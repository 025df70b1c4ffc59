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
from typing import Any

import msgspec

from inturn.model.errors import BadInput, ChildDied, LeaseLost, StoreError
from inturn.model.forks import in_forked_child
from inturn.model.job import LeasedJob
from inturn.policy.verdict import Verdict
from inturn.queue.context import AttemptStore
from inturn.queue.job import Job
from inturn.worker import process_protocol as protocol
from inturn.worker.processes import how_ended
from inturn.worker.watchdog import took_too_long

IDLE_SECONDS = 60.0  # a child without work is ended after this
END_SECONDS_MAX = 5.0  # for one that was asked to end
START_SECONDS_MAX = 120.0  # for one that imports its modules
DRAIN_SECONDS = 0.5  # for the last words of one that is gone

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from inturn.worker.process_child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)

_lifelines: set[int] = set()


@in_forked_child
def _drop_lifelines() -> None:
    """Let what the worker forks not keep its children alive."""
    for lifeline in _lifelines:
        os.close(lifeline)
    _lifelines.clear()


class ChildPool:
    """As many child processes as attempts that run at once, each with one job at a time."""

    def __init__(self, jobs: Sequence[Job[Any, Any]]) -> None:
        self._jobs = jobs
        self._idle: dict[ChildProcess, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the first child, and refuse jobs that it cannot find."""
        if self._jobs:
            for job in self._jobs:
                protocol.check_found(job)
            self.keep(await self._new())

    async def stop(self) -> None:
        """End every child; none has a job any more."""
        for child in list(self._idle):
            self._end(child)
        if self._ending:
            await asyncio.wait(self._ending)

    async def take(self) -> ChildProcess:
        """Take a child that has no job; start one if there is none, which may take long."""
        while self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            if child.lives:
                return child
            self._end(child)
        return await self._new()

    def keep(self, child: ChildProcess) -> None:
        """Keep a child for the next job."""
        loop = asyncio.get_running_loop()
        self._idle[child] = loop.call_later(IDLE_SECONDS, self._end, child)

    async def attempt(
        self, child: ChildProcess, token: int, leased: LeasedJob, store: AttemptStore
    ) -> Verdict:
        """Have a child make an attempt; return its verdict, and keep the child.

        Raises ``TimeoutError`` when it was killed at its timeout, ``ChildDied`` when it died.
        """
        seconds = leased.timeout_seconds
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                verdict = await child.attempt(protocol.Begin(token, leased), store)
        except BaseException as error:
            await child.kill()
            if seconds is not None and timer.expired() and isinstance(error, TimeoutError):
                raise took_too_long(seconds) from None
            raise
        self.keep(child)
        return verdict

    def _end(self, child: ChildProcess) -> None:
        if (timer := self._idle.pop(child, None)) is not None:
            timer.cancel()
        ending = asyncio.get_running_loop().create_task(child.end(), name="inturn-child-ends")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _new(self) -> ChildProcess:
        child = await ChildProcess.start()
        try:
            modules = {job.kind: job.module for job in self._jobs}
            [store] = {job.app.address for job in self._jobs}
            async with asyncio.timeout(START_SECONDS_MAX):
                ready = await child.set_up(protocol.Setup(protocol.about_main(), modules, store))
            for error in ready.missing:
                raise BadInput(error)
        except BaseException as error:
            await child.kill()
            if isinstance(error, TimeoutError):
                raise ChildDied(f"was not ready after {START_SECONDS_MAX:g} s") from error
            raise
        return child


class ChildProcess:
    """One child process, and the socket to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lifeline: int,
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self._lifeline = lifeline  # the end of a pipe: the kernel kills the child when it is closed

    @classmethod
    async def start(cls) -> ChildProcess:
        """Start a process of its own session, so that it can be killed with all it started.

        It is spawned and not forked, for a worker has threads, and shares nothing with it but
        standard output and error.
        """
        ours, theirs = socket.socketpair()
        theirs.setblocking(True)  # in the child, too: an app may give every new socket a timeout
        path = msgspec.json.encode(sys.path).decode()
        watched, lifeline = os.pipe()
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
                *("-c", _BOOT, str(theirs.fileno()), str(watched), path),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), watched],
                start_new_session=True,
            )
        except BaseException:
            writer.close()
            os.close(lifeline)
            raise
        finally:
            theirs.close()
            os.close(watched)
        _lifelines.add(lifeline)
        return cls(process, reader, writer, lifeline)

    @property
    def lives(self) -> bool:
        """Whether it could take a job."""
        return self._process.returncode is None

    async def set_up(self, setup: protocol.Setup) -> protocol.Ready:
        """Tell a new child what it needs to know; wait until it is ready."""
        self._writer.write(protocol.encode(setup))
        ready = await self._receive()
        assert isinstance(ready, protocol.Ready)
        return ready

    async def attempt(self, begin: protocol.Begin, store: AttemptStore) -> Verdict:
        """Have it make an attempt; answer what the handler asks meanwhile."""
        self._writer.write(protocol.encode(begin))
        while not isinstance(frame := await self._receive(), protocol.Ended):
            assert isinstance(frame, protocol.Ask)
            self._writer.write(protocol.encode(await _answer(frame, store)))
        return frame.verdict

    async def kill(self) -> None:
        """End it now, with all that its handler has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._gone()

    async def end(self) -> None:
        """Let it end by itself, or else end it."""
        self._writer.close()
        try:
            async with asyncio.timeout(END_SECONDS_MAX):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
        else:
            await self._gone()

    async def _gone(self) -> None:
        await self._process.wait()
        self._writer.close()
        if self._lifeline in _lifelines:
            _lifelines.remove(self._lifeline)
            os.close(self._lifeline)
            self._lifeline = -1

    async def _receive(self) -> protocol.Frame:
        """Wait for a frame, or for the end: what the process forked may hold the socket open."""
        frame = asyncio.ensure_future(self._read())
        gone = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait([frame, gone], return_when=asyncio.FIRST_COMPLETED)
            if not frame.done():
                await asyncio.wait([frame], timeout=DRAIN_SECONDS)
            if frame.done() and (received := frame.result()) is not None:
                return received
            raise ChildDied(how_ended(await gone))
        finally:
            frame.cancel()
            gone.cancel()

    async def _read(self) -> protocol.Frame | None:
        try:
            head = await self._reader.readexactly(protocol.LENGTH_BYTES)
            return protocol.decode(await self._reader.readexactly(int.from_bytes(head)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


async def _answer(ask: protocol.Ask, store: AttemptStore) -> protocol.Answer:
    try:
        if ask.verb == "heartbeat":
            await store.heartbeat()
        else:
            await store.progress(ask.fraction, ask.note)
    except LeaseLost:
        return protocol.Answer(ask.number, is_lost=True)
    except StoreError as error:
        return protocol.Answer(ask.number, error=str(error))
    return protocol.Answer(ask.number)
