"""The faults of a run: that they are made, come as planned, and are told of if they cannot be."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf
from pathlib import Path
from random import Random

import psycopg
import pytest

from inturn.verify.crew import Crew, Member
from inturn.verify.faults import KINDS, Injector, Reach, Switch
from inturn.verify.history import Accepted, Event, Failed, Fault, History, Mended, Reader, read_all
from inturn.verify.plan import PlannedFault, Settings, planned_faults
from inturn.verify.report import Report
from inturn.verify.run import Progress, Verification, Wanted
from tests.verify import __main__ as chaos
from tests.verify.support import explained

pytestmark = pytest.mark.timeout(600)

COUNT = 60  # faults that are planned for a crew that is none
DRAWN = [kind.name for kind in KINDS if kind.handler is None and kind.name != "cut-connection"]


class StuckSwitch:
    """A switch that moves nothing."""

    def choose(self, random: Random) -> str:
        return "fast"

    async def stop(self, how: str) -> None:
        raise RuntimeError("the switch is stuck")

    async def start(self) -> None: ...


def test_a_fault_that_could_not_be_made_is_told_and_the_run_is_not_good(
    tmp_path: Path, migrated_url: str
) -> None:
    report = _run_with(
        "stop-server",
        migrated_url,
        tmp_path,
        switch=StuckSwitch(),
        is_enough=lambda events: any(isinstance(one, Failed) for one in events),
    )
    assert (report.violations, report.is_good) == ([], False)
    [failure] = report.failures
    assert "stop-server, which could not be made: RuntimeError: the switch is stuck" in failure
    assert failure in explained(report)
    with psycopg.connect(migrated_url) as connection:  # no promise was broken: nothing stays
        left = connection.execute("select 1 from pg_class where relname like 'inturn_verify_%'")
        assert left.fetchall() == []


@pytest.mark.parametrize("name", ["clock-step", "full-disk"])
def test_a_fault_alone_is_made_and_mended_on_sqlite(name: str, tmp_path: Path) -> None:
    report = _run_with(name, None, tmp_path, is_enough=_mended)
    assert report.is_good, explained(report)
    events = [event for _, event in read_all(tmp_path)]
    faults = _faults(events)
    assert len(faults) == report.faults[name] > 0
    assert {one.name for one in faults} == {name}
    mends = [one for one in events if isinstance(one, Mended) and one.name == name]
    assert mends, "it was never mended"
    assert mends[0].target in {one.target for one in faults if one.at < mends[0].at}


def test_connections_that_were_killed_alone_are_followed_by_others(
    tmp_path: Path, migrated_url: str
) -> None:
    report = _run_with("kill-backend", migrated_url, tmp_path, is_enough=_went_on)
    assert report.is_good, explained(report)
    events = [event for _, event in read_all(tmp_path)]
    assert len(_faults(events)) == report.faults["kill-backend"] > 0
    assert _went_on(events)


def _run_with(
    name: str,
    store: str | None,
    folder: Path,
    *,
    is_enough: Callable[[list[Event]], bool],
    switch: Switch | None = None,
) -> Report:
    """Run with one fault only, until its history holds enough, or for a minute."""
    wanted = Wanted(
        store=store,
        seed=1,
        jobs=None,
        seconds=60.0,
        workers=1,
        producers=1,
        faults=(name,),
        gap_seconds=0.4,
        folder=folder,
    )
    reader, events = Reader(folder), list[Event]()

    def look(progress: Progress) -> None:
        events.extend(event for _, event in reader.news())
        if progress.phase == "running" and is_enough(events):
            run.interrupt()

    run = Verification(wanted, switch=switch, shown=look)
    report = asyncio.run(run.run())
    assert report.is_drained, explained(report)
    return report


def _faults(events: list[Event]) -> list[Fault]:
    return [one for one in events if isinstance(one, Fault)]


def _mended(events: list[Event]) -> bool:
    return any(isinstance(one, Mended) for one in events)


def _went_on(events: list[Event]) -> bool:
    """Whether jobs were accepted after the first fault."""
    accepted = [one.at for one in events if isinstance(one, Accepted)]
    first = min((one.at for one in _faults(events)), default=inf)
    return max(accepted, default=0.0) > first


def test_long_runs_fail_if_a_fault_alone_never_came_and_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [tmp_path / "histories", tmp_path / "results"]
    for place in places:
        place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places[0]))
    monkeypatch.setattr(chaos, "KINDS", [one for one in KINDS if one.name == "stop-worker"])
    monkeypatch.setattr(chaos, "NAMES", ())
    options = "--store sqlite --workers 1 --jobs 20 --seconds 0 --alone 0.1 --seed 1"
    assert chaos.main([*options.split(), "--results", str(places[1])]) == 1
    said = capsys.readouterr().out
    assert "left out   stop-worker: it needs --workers 2 or more" in said
    assert "only stop-worker: it never came, for it needs --workers 2" in said
    [written] = places[1].iterdir()
    text = written.read_text(encoding="utf-8")
    assert "every promise was kept" in text  # by the run with the others
    assert "- `stop-worker`: " in text
    assert "jobs, never came" in text
    assert "--seed 1 --store sqlite`" in text
    assert "journal_mode=wal, synchronous=full" in text
    assert "PostgreSQL" not in text


def test_what_a_long_run_says_about_a_server_is_the_servers_own_word(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        said = {
            name: str(connection.execute(f"show {name}".encode()).fetchall()[0][0])
            for name in ("server_version", "fsync", "synchronous_commit")
        }
    assert chaos.conditions_of(postgres_url) == (
        f"PostgreSQL {said['server_version']} (fsync={said['fsync']}, "
        f"synchronous_commit={said['synchronous_commit']})"
    )


class StandIn(Member):
    """A place in a crew without a process, to whom nothing happens."""

    def __init__(self, role: str, number: int, *, is_alive: bool) -> None:
        super().__init__(role, number)
        self._is_alive = is_alive

    @property
    def is_alive(self) -> bool:
        return self._is_alive

    def signal(self, number: signal.Signals) -> None: ...

    def tell(self, order: str) -> None: ...


class SlowSwitch(StuckSwitch):
    """A switch that takes its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def choose(self, random: Random) -> str:
        return random.choice(("fast", "immediate"))

    async def stop(self, how: str) -> None:
        await asyncio.sleep(self._seconds)


async def made(
    folder: Path, *, seed: int, dead: Iterable[str] = (), seconds: float = 0.0
) -> tuple[list[PlannedFault], list[Fault]]:
    """Make faults of a plan; return what was planned, and what was killed, in that order."""
    settings = Settings(run="r", store="", folder=str(folder), seed=seed)
    crew = Crew(settings, started=lambda _: None, stop_seconds_max=1.0)
    for members in (crew.workers, crew.producers):
        members[:] = [
            StandIn(one.role, one.number, is_alive=one.name not in dead) for one in members
        ]
    taken: list[PlannedFault] = []
    over = asyncio.Event()

    def planned() -> Iterator[PlannedFault]:
        for one in islice(planned_faults(seed, DRAWN, gap_seconds=0.001), COUNT):
            taken.append(one)
            yield one
        over.set()

    async def kill_backends(wanted: int) -> int:
        await asyncio.sleep(seconds)
        return wanted

    reach = Reach(switch=SlowSwitch(seconds), kill_backends=kill_backends)
    history = History(folder, "run")
    await Injector(crew, history, planned(), reach=reach, lease_seconds=0.01).run(over)
    faults = [event for _, event in read_all(folder) if isinstance(event, Fault)]
    return taken, [one for one in faults if one.name in ("kill-worker", "kill-producer")]


async def test_the_same_seed_makes_the_same_faults_whoever_is_alive_and_however_long_they_take(
    tmp_path: Path,
) -> None:
    def place(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    (planned, killed), (again, killed_again), (others, hit), (different, _) = await asyncio.gather(
        made(place("first"), seed=7),
        made(place("again"), seed=7, seconds=0.1),
        made(place("others"), seed=7, dead=["worker-1-0"]),
        made(place("different"), seed=8),
    )
    assert (len(planned), len(killed) > 5) == (COUNT, True)
    assert again == planned
    assert [(one.name, one.target) for one in killed_again] == [
        (one.name, one.target) for one in killed
    ]
    assert others == planned
    assert [one.target for one in hit] == [
        one.target if one.target != "worker-1-0" else instead.target
        for one, instead in zip(killed, hit, strict=True)
    ]
    assert "worker-1-0" in {one.target for one in killed} - {one.target for one in hit}
    assert [one.name for one in different] != [one.name for one in planned]


@pytest.mark.parametrize("seed", range(20))
def test_every_fault_comes_once_before_any_comes_again(seed: int) -> None:
    planned = list(islice(planned_faults(seed, DRAWN, gap_seconds=1.0), 2 * len(DRAWN)))
    assert {one.name for one in planned[: len(DRAWN)]} == set(DRAWN)
    assert all(0.5 <= one.pause_seconds <= 1.5 for one in planned)
    assert len({one.random().random() for one in planned}) == len(planned)
