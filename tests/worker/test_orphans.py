"""No child outlives its worker by more than seconds, whatever its handler does."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from inturn.worker import guard_process, wire
from inturn.worker.program import Program
from tests.processes.support import is_gone
from tests.worker.conftest import SECONDS_MAX, until

ROOT = Path(__file__).parents[2]
Process = asyncio.subprocess.Process


class Doomed:
    """A worker in a process of its own, and the processes that it is told to have started."""

    def __init__(self, worker: Process, path: Path, fork_path: Path) -> None:
        self.worker = worker
        self._path, self._fork_path = path, fork_path

    async def children(self) -> list[int]:
        """Wait until its job is at what it does; return the pids of who does it."""
        return await self._read(self._path)

    async def fork(self) -> int:
        """Wait until the worker has forked; return the pid of the fork."""
        [pid] = await self._read(self._fork_path)
        return pid

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.worker.kill()
        await self.worker.wait()

    async def kill_guard(self) -> None:
        """Kill the process that would end the children."""
        [guard] = self.guards()
        os.kill(guard, signal.SIGKILL)
        await until(lambda: is_gone(guard))

    def guards(self) -> list[int]:
        """Return the pids of the processes that would end the children."""
        pid = self.worker.pid
        started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        program = os.fsencode(guard_process.__file__)
        return [int(one) for one in started if program in Path(f"/proc/{one}/cmdline").read_bytes()]

    def end_all(self) -> None:
        """Leave nothing of a test that failed."""
        for path in (self._path, self._fork_path):
            if path.exists():
                for pid in pids_in(path):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    async def _read(self, path: Path) -> list[int]:
        await until(lambda: path.exists() or self.worker.returncode is not None)
        return pids_in(path)


@pytest_asyncio.fixture
async def start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable[Doomed]]]:
    """Start a worker with a job that does something, and let it fork afterwards if need be."""
    monkeypatch.setenv("INTURN_STORE", f"sqlite:///{tmp_path / 'work.db'}")
    path, fork_path = tmp_path / "pids", tmp_path / "fork"
    started: list[Doomed] = []

    async def start(what: str, *, forks: bool = False) -> Doomed:
        command = [sys.executable, "-m", "tests.worker.doomed", what, str(path)]
        worker = await asyncio.create_subprocess_exec(
            *command, *[str(fork_path)] * forks, cwd=ROOT, start_new_session=True
        )
        started.append(Doomed(worker, path, fork_path))
        return started[-1]

    yield start
    for doomed in started:
        await doomed.kill()
        doomed.end_all()


Start = Callable[..., Awaitable[Doomed]]


@pytest.mark.parametrize("what", ["waits", "blocks", "starts", "idles", "imports"])
async def test_a_worker_that_is_killed_leaves_no_child(start: Start, what: str) -> None:
    doomed = await start(what)
    pids = await doomed.children()
    assert not any(map(is_gone, pids))
    await doomed.kill()
    await until(lambda: all(map(is_gone, pids)))


async def test_a_worker_that_is_killed_while_it_stands_still_leaves_no_child(start: Start) -> None:
    doomed = await start("blocks")
    pids = await doomed.children()
    doomed.worker.send_signal(signal.SIGSTOP)
    await doomed.kill()
    await until(lambda: all(map(is_gone, pids)))


@pytest.mark.parametrize("what", ["waits", "blocks"])
async def test_a_process_that_the_worker_forked_keeps_no_child_alive(
    start: Start, what: str
) -> None:
    doomed = await start(what, forks=True)
    pids = await doomed.children()
    fork = await doomed.fork()
    await doomed.kill()
    await until(lambda: all(map(is_gone, pids)))
    assert not is_gone(fork)


async def test_a_child_that_nobody_guards_looks_for_itself(start: Start) -> None:
    doomed = await start("waits", forks=True)
    pids = await doomed.children()
    await doomed.fork()
    await doomed.kill_guard()
    await doomed.kill()
    await until(lambda: all(map(is_gone, pids)))


async def test_a_guard_ends_with_its_worker_and_not_by_a_signal_to_all(start: Start) -> None:
    doomed = await start("blocks")
    pids = await doomed.children()
    [guard] = doomed.guards()
    await until(lambda: ignores(guard, signal.SIGHUP))  # it has begun
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(guard, number)
    await doomed.kill()
    await until(lambda: all(map(is_gone, [*pids, guard])))


# Looks for its worker once, so that nothing but a signal can tell it that the worker is gone.
CHILD = """
import sys
from inturn.worker import child
child.LOOK_SECONDS = 600
child.main(int(sys.argv[1]), int(sys.argv[2]))
"""
PARENT = f"""
import os, subprocess, sys, time
started = subprocess.Popen(
    [sys.executable, "-c", {CHILD!r}, sys.argv[1], str(os.getpid())],
    pass_fds=[int(sys.argv[1])], start_new_session=True, stdout=subprocess.DEVNULL,
)
print(started.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_child_only_when_its_worker_is_gone(number: signal.Signals) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        parent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PARENT, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdout=asyncio.subprocess.PIPE,
        )
        pid = 0
        try:
            assert parent.stdout is not None
            pid = int(await parent.stdout.readline())
            ask(ours)  # it has its signal handlers now
            os.kill(pid, number)
            ask(ours)
            parent.kill()
            await parent.wait()
            os.kill(pid, number)
            await until(lambda: is_gone(pid))
        finally:
            with suppress(ProcessLookupError):
                parent.kill()
            await parent.wait()
            if pid and not is_gone(pid):
                os.kill(pid, signal.SIGKILL)


def pids_in(path: Path) -> list[int]:
    return [int(pid) for pid in path.read_text().split()]


def ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    [mask] = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")]
    return bool(int(mask, 16) >> (number - 1) & 1)


def ask(line: socket.socket) -> None:
    """Ask a child whether it is ready, and wait until it says so."""
    line.settimeout(SECONDS_MAX)
    line.sendall(wire.written(wire.Welcome(Program([], None, None), {}, "")))
    head = line.recv(wire.LENGTH_BYTES, socket.MSG_WAITALL)
    said = wire.read(line.recv(int.from_bytes(head), socket.MSG_WAITALL))
    assert said == wire.Ready({})
