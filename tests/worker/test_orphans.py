"""No child outlives its worker by more than seconds, whatever its handler does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from tests.processes.support import is_gone
from tests.worker.conftest import until

ROOT = Path(__file__).parents[2]
Process = asyncio.subprocess.Process


class Doomed:
    """A worker in a process of its own, and the processes that it is told to have started."""

    def __init__(self, worker: Process, path: Path) -> None:
        self.worker, self._path = worker, path

    async def children(self) -> list[int]:
        """Wait until its job is at what it does; return the pids of who does it."""
        await until(lambda: self._path.exists() or self.worker.returncode is not None)
        return pids_in(self._path)

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.worker.kill()
        await self.worker.wait()

    def end_all(self) -> None:
        """Leave nothing of a test that failed."""
        for pid in pids_in(self._path) if self._path.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest_asyncio.fixture
async def start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable[Doomed]]]:
    """Start a worker with a job that does something."""
    monkeypatch.setenv("INTURN_STORE", f"sqlite:///{tmp_path / 'work.db'}")
    path = tmp_path / "pids"
    started: list[Doomed] = []

    async def start(what: str) -> Doomed:
        command = [sys.executable, "-m", "tests.worker.doomed", what, str(path)]
        worker = await asyncio.create_subprocess_exec(*command, cwd=ROOT, start_new_session=True)
        started.append(Doomed(worker, path))
        return started[-1]

    yield start
    for doomed in started:
        await doomed.kill()
        doomed.end_all()


Start = Callable[..., Awaitable[Doomed]]


@pytest.mark.parametrize("what", ["blocks", "starts", "idles"])
async def test_a_worker_that_is_killed_leaves_no_child(start: Start, what: str) -> None:
    doomed = await start(what)
    pids = await doomed.children()
    assert not any(map(is_gone, pids))
    await doomed.kill()
    await until(lambda: all(map(is_gone, pids)))


def pids_in(path: Path) -> list[int]:
    return [int(pid) for pid in path.read_text().split()]
