"""The supervisor of --processes: when it starts one again, and what it says.

Its processes are made up here; tests/processes has real ones.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from inturn.model.worker_events import Counts, MemberDied, Started, WorkerEvent
from inturn.policy.restart import restart_seconds
from inturn.worker import supervisor as module
from inturn.worker import work_process
from inturn.worker.health import Health
from inturn.worker.settings import WorkSettings
from inturn.worker.supervisor import Begin, Supervisor

SECONDS_MAX = 60.0
STARTED = Started(
    worker="c-1", app="shop:app", store="", queues=(), kinds=(), concurrency=1, processes=1,
    version="", pid=1,
)  # fmt: skip


class FakeProcess:
    """Begins at once and lives until it is killed; or ends at once, with the next of ``codes``."""

    made: list[FakeProcess]
    codes: list[int | Exception]

    def __init__(self, name: str, supervisor: Supervisor) -> None:
        self.name, self._supervisor = name, supervisor
        self.counts, self.running, self.pid = Counts(), 0, 1
        self.has_begun = False
        self.sent: list[signal.Signals] = []
        self._killed = asyncio.Event()
        self.made.append(self)

    async def live(self, command: Sequence[str], begin: Begin) -> int:
        ends = self.codes.pop(0) if self.codes else None
        if isinstance(ends, Exception):
            self.pid = 0
            raise ends
        self.has_begun = True
        self._supervisor.has_begun(msgspec.structs.replace(STARTED, worker=self.name))
        if ends is not None:
            return ends
        await self._killed.wait()
        return -signal.SIGKILL

    def send(self, number: signal.Signals) -> None:
        self.sent.append(number)
        if number == signal.SIGKILL:
            self._killed.set()

    def lived_seconds(self) -> float:
        return 0.0

    def health(self, now: float) -> Health:
        return Health(healthy=True)


class World:
    """A supervisor, what it said, and its processes."""

    def __init__(self, *, drain: bool = False, name: str = "c") -> None:
        self.said: list[WorkerEvent] = []
        self.supervisor = Supervisor(
            WorkSettings(target="shop:app", folder=".", name=name, drain=drain),
            processes=2,
            command=["none"],
            listener=self.said.append,
            as_json=True,
        )

    @property
    def deaths(self) -> list[MemberDied]:
        return [one for one in self.said if isinstance(one, MemberDied)]

    async def run(self) -> int:
        async with asyncio.timeout(SECONDS_MAX):
            return await self.supervisor.run()


@pytest_asyncio.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., World]]:
    monkeypatch.setattr(module, "WorkerProcess", FakeProcess)
    monkeypatch.setattr(FakeProcess, "made", [], raising=False)
    monkeypatch.setattr(FakeProcess, "codes", [], raising=False)
    yield World


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_process_that_keeps_dying_young_is_started_later_and_later(
    world: Callable[..., World],
) -> None:
    one = world()
    FakeProcess.codes = [3, 3, OSError(24, "Too many open files"), 0]
    running = asyncio.create_task(one.run())
    await until(lambda: len(one.deaths) == 4)
    one.supervisor.signalled(signal.SIGTERM, 1)
    one.supervisor._kill()
    await running
    how = {death.how for death in one.deaths}
    assert how == {
        "ended with exit code 3",
        "ended with exit code 0, though nobody had told it to stop",
        "could not be started: OSError: [Errno 24] Too many open files",
    }
    waits = sorted(death.restart_seconds or 0.0 for death in one.deaths)
    assert waits == sorted(restart_seconds(deaths) for deaths in (1, 1, 2, 2))
    assert {process.name for process in FakeProcess.made} >= {"c-1", "c-2", "c-1.2", "c-2.2"}


async def test_what_all_processes_have_done_is_logged_now_and_then(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(work_process, "COUNT_SECONDS", 0.01)
    caplog.set_level("INFO", "inturn.worker")
    one = world()
    running = asyncio.create_task(one.run())
    await until(lambda: len(FakeProcess.made) == 2)
    FakeProcess.made[0].counts.done = 2
    FakeProcess.made[1].counts = Counts(done=1_000, dead=1)
    await until(lambda: caplog.messages)
    assert caplog.messages == ["worker c: 1,002 jobs done in the last 0 s, 1 failed"]
    one.supervisor.signalled(signal.SIGTERM, 1)
    one.supervisor._kill()
    await running
