"""The parent of a crew: when it starts a process again, what its signals do, and its health.

Its processes are made up here; tests/processes has real ones.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from inturn.model import bounds
from inturn.model.errors import InvalidName
from inturn.model.worker_events import (
    Counts,
    MemberDied,
    Started,
    Stopped,
    StoreBack,
    StoreTroubled,
    WorkerEvent,
)
from inturn.policy.restart import restart_seconds
from inturn.worker import crew as crew_module
from inturn.worker.crew import Crew
from inturn.worker.line import Begin, Stop, StopNow, Up
from inturn.worker.pulse import Health
from inturn.worker.settings import WorkSettings
from inturn.worker.signals import SAME_SECONDS, Signalled

SECONDS_MAX = 60.0
STARTED = Started(
    worker="c-1", app="shop:app", store="", queues=(), kinds=(), concurrency=1, processes=1,
    version="", pid=1,
)  # fmt: skip


class FakeMember:
    """Comes up at once, and lives until it is killed; or dies at once, if the crew is ``deadly``.

    Those in ``away`` find no store, and end before they are up. Those in ``unstartable`` cannot be
    started at all.
    Ordered to stop it does not, as one whose job never ends.
    """

    is_deadly = False
    away: frozenset[str] = frozenset()
    unstartable: Mapping[str, Exception] = MappingProxyType({})
    made: list[FakeMember]

    def __init__(self, name: str, up: Callable[[Up], None]) -> None:
        self.name, self._up = name, up
        self.counts, self.running, self.pid = Counts(), 0, 1
        self.is_up = self.is_emptied = self.is_finished = self.has_complained = False
        self.no_store: str | None = None
        self.unread: str | None = None
        self.orders: list[Any] = []
        self._killed = asyncio.Event()
        self.made.append(self)

    async def live(self, command: Sequence[str], begin: Begin) -> int:
        self.crew_was_up = begin.crew_is_up
        if self.name in self.unstartable:
            raise self.unstartable[self.name]
        if self.name in self.away:
            self.no_store = "the store is away."
            return 3
        self.is_up = True
        self._up(Up(msgspec.structs.replace(STARTED, worker=self.name)))
        if self.is_deadly:
            return 3
        await self._killed.wait()
        return -signal.SIGKILL

    def order(self, order: Any) -> None:
        self.orders.append(order)

    def kill(self) -> None:
        self._killed.set()

    def lived_seconds(self, now: float) -> float:
        return 0.0

    def health(self, now: float) -> Health:
        return Health(healthy=True)


class World:
    """A crew, what it said, and a clock that is moved by hand."""

    def __init__(self, processes: int, heard: Callable[[World], None] = lambda _: None) -> None:
        self.now = 1_000.0
        self.loop = asyncio.get_running_loop()
        self.said: list[WorkerEvent] = []
        self._heard = heard
        self.crew = Crew(
            WorkSettings(target="shop:app", folder=".", name="c"),
            processes=processes,
            command=["none"],
            listener=self._hear,
            as_json=True,
            debug=False,
        )

    def _hear(self, event: WorkerEvent) -> None:
        """On the herald's thread, and a crew is for its loop alone."""
        self.said.append(event)
        self.loop.call_soon_threadsafe(self._heard, self)

    @property
    def deaths(self) -> list[MemberDied]:
        return [one for one in self.said if isinstance(one, MemberDied)]

    @property
    def stopped(self) -> Stopped:
        [last] = [one for one in self.said if isinstance(one, Stopped)]
        return last

    def orders(self) -> list[list[type]]:
        return [[type(order) for order in member.orders] for member in FakeMember.made]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    def made(*arguments: Any) -> World:
        monkeypatch.setattr(crew_module, "Signalled", lambda: Signalled(lambda: world.now))
        world: World = World(*arguments)
        return world

    monkeypatch.setattr(crew_module, "Member", FakeMember)
    monkeypatch.setattr(crew_module, "KILL_SECONDS", 1e6)
    monkeypatch.setattr(FakeMember, "made", [], raising=False)
    return made


async def test_a_process_that_keeps_dying_young_is_started_later_and_later(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_after_four(world: World) -> None:
        if len(world.deaths) >= 4:
            world.crew.signalled(signal.SIGTERM)

    monkeypatch.setattr(FakeMember, "is_deadly", True)
    world = make(1, stop_after_four)
    async with asyncio.timeout(SECONDS_MAX):
        await world.crew.run()
    assert world.stopped.members_died >= 4
    waits = [one.restart_seconds or 0.0 for one in world.deaths][:4]
    assert waits == [restart_seconds(deaths) for deaths in (1, 2, 3, 4)]
    assert waits == sorted(set(waits))


async def test_a_process_that_finds_the_store_away_is_started_until_it_is_back_and_that_said_once(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeMember, "away", frozenset({"c-2", "c-2.2", "c-2.3"}))
    monkeypatch.setattr(crew_module, "AWAY_SECONDS", 0.01)
    world = make(2)
    running = asyncio.create_task(world.crew.run())
    await until(lambda: any(isinstance(one, StoreBack) for one in world.said))
    assert [member.name for member in FakeMember.made] == ["c-1", "c-2", "c-2.2", "c-2.3", "c-2.4"]
    assert [member.crew_was_up for member in FakeMember.made] == [False, True, True, True, True]
    world.crew.signalled(signal.SIGTERM)
    for member in FakeMember.made:
        member.kill()
    await running
    [started, troubled, back, *_] = world.said
    assert isinstance(started, Started)
    assert troubled == StoreTroubled(worker="c-2", error="the store is away.")
    assert isinstance(back, StoreBack)
    assert (back.worker, world.deaths, world.stopped.members_died) == ("c-2.4", [], 2)


async def test_a_process_that_cannot_be_started_is_tried_again_and_the_others_go_on(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = {
        "c-2": OSError(24, "Too many open files"),
        "c-2.2": RuntimeError("can't start new thread"),
    }
    monkeypatch.setattr(FakeMember, "unstartable", errors)
    world = make(2)
    running = asyncio.create_task(world.crew.run())
    await until(lambda: len(FakeMember.made) == 4 and FakeMember.made[-1].is_up)
    assert [member.name for member in FakeMember.made] == ["c-1", "c-2", "c-2.2", "c-2.3"]
    world.crew.signalled(signal.SIGTERM)
    for member in FakeMember.made:
        member.kill()
    await running
    assert [(one.worker, one.pid, one.restart_seconds) for one in world.deaths] == [
        ("c-2", 0, restart_seconds(1)),
        ("c-2.2", 0, restart_seconds(2)),
    ]
    assert "could not be started: OSError: [Errno 24] Too many open files" in world.deaths[0].how
    assert world.stopped.members_died == 2


async def test_a_crew_whose_first_process_cannot_be_started_ends_with_the_error(
    make: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(24, "Too many open files")
    monkeypatch.setattr(FakeMember, "unstartable", {"c-1": error})
    with pytest.raises(OSError, match="Too many open files"):
        await make(2).crew.run()


async def test_a_name_that_leaves_no_room_for_those_of_the_processes_is_refused() -> None:
    def named(chars: int) -> Crew:
        return Crew(
            WorkSettings(target="shop:app", folder=".", name="c" * chars),
            processes=10,
            command=["none"],
            listener=lambda _: None,
            as_json=True,
            debug=False,
        )

    with pytest.raises(InvalidName, match="the name of a crew has 188 characters; it needs 1 to"):
        named(188)
    longest = named(187)
    assert len(longest._name(10, 999_999_999)) == bounds.WORKER_CHARS_MAX


async def test_the_first_signal_stops_a_second_hurries_and_a_third_kills(
    make: Callable[..., World],
) -> None:
    world = make(2)
    running = asyncio.create_task(world.crew.run())
    await until(lambda: len(FakeMember.made) == 2)
    world.crew.signalled(signal.SIGTERM)
    world.now += 0.9 * SAME_SECONDS[signal.SIGTERM]
    world.crew.signalled(signal.SIGTERM)
    assert world.orders() == [[Stop]] * 2, "within a moment it is the same one"
    world.now += SAME_SECONDS[signal.SIGTERM]
    world.crew.signalled(signal.SIGTERM)
    assert world.orders() == [[Stop, StopNow]] * 2
    world.now += SAME_SECONDS[signal.SIGTERM]
    world.crew.signalled(signal.SIGTERM)
    async with asyncio.timeout(SECONDS_MAX):
        assert await running == 128 + signal.SIGTERM
    assert not world.deaths, "nothing is started again"


async def test_a_process_that_fails_while_its_crew_stops_is_no_good_end(
    make: Callable[..., World],
) -> None:
    world = make(2)
    running = asyncio.create_task(world.crew.run())
    await until(lambda: len(FakeMember.made) == 2)
    world.crew.signalled(signal.SIGTERM)
    for member in FakeMember.made:
        member.kill()
    async with asyncio.timeout(SECONDS_MAX):
        assert await running == 1


async def test_a_crew_is_not_well_before_all_of_it_has_begun(make: Callable[..., World]) -> None:
    world = make(2)
    assert not world.crew.health().healthy
    running = asyncio.create_task(world.crew.run())
    await until(lambda: FakeMember.made)
    health = world.crew.health()
    assert (health.healthy, health.why) == (False, "not all of its processes have begun")
    await until(lambda: len(FakeMember.made) == 2)
    assert world.crew.health().healthy
    world.crew.signalled(signal.SIGTERM)
    for member in FakeMember.made:
        member.kill()
    await running


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)
