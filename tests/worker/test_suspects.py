"""Suspects run alone: a job that kills its worker is buried, and its neighbours are not harmed."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inturn.model.job import JobState, NewJob
from inturn.model.worker_events import BuriedDeadly, WorkerEvent
from inturn.queue.app import App
from inturn.worker import suspects
from inturn.worker.runs import Run
from inturn.worker.suspects import ASK_SECONDS, EMPTY_SECONDS, Suspects
from tests.worker.conftest import run_out, take_leases, until, working

POISON = 3

SCRIPT = """
    import asyncio, os, signal
    import inturn
    from inturn.worker import suspects

    suspects.ASK_SECONDS = 0.2
    app = inturn.App()

    @app.job(attempts=1)
    def work(n: int) -> None:
        ...

    @app.job(attempts=2)
    def poison() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if __name__ == "__main__":
        asyncio.run(inturn.Worker(app, lease_seconds=1.5, sweep_seconds=0.3, concurrency=20).run())
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}"
    found: str = request.getfixturevalue("migrated_url")
    return found


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_job_that_kills_its_worker_is_buried_and_its_neighbours_are_done(
    url: str, key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The neighbours have one attempt each: a crash that was counted would bury them. (001-06)"""
    monkeypatch.setenv("INTURN_STORE", url)
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(SCRIPT))
    app = App(url)
    new = [NewJob(kind="work", payload=f'{{"n":{n}}}', key=key, attempts_max=1) for n in range(10)]
    new.insert(POISON, NewJob(kind="poison", payload="{}", key=key, attempts_max=2))
    await app.run(lambda store: store.enqueue(new))
    deaths = await deaths_until_settled(app, sys.executable, str(script))
    [letter] = (await app.run(lambda store: store.dead_letters())).rows
    assert (letter.job.id, letter.attempts) == (new[POISON].id, 2)
    assert deaths == 3, "once in company, which does not count, and twice alone"
    assert await app.run(lambda store: store.check()) == []
    await app.close()


async def deaths_until_settled(app: App, *command: str) -> int:
    """Start a worker whenever one has died, until all is settled; return how many died."""

    async def all_settled() -> bool:
        found = (await app.run(lambda store: store.jobs())).rows
        return {one.state for one in found} <= {JobState.DONE, JobState.DEAD}

    deaths = 0
    async with asyncio.timeout(100):
        while not await all_settled():
            worker = await asyncio.create_subprocess_exec(*command)
            ending = asyncio.create_task(worker.wait())
            while not ending.done() and not await all_settled():
                await asyncio.wait([ending], timeout=0.1)
            if ending.done():
                assert worker.returncode == -9
                deaths += 1
            else:
                worker.kill()
                await ending
    return deaths


async def claim_and_vanish(app: App, count: int) -> None:
    """Let someone claim jobs of kind ``suspect`` who will not be heard of again."""
    new = [NewJob(kind="suspect", payload="{}", attempts_max=1) for _ in range(count)]
    await app.run(lambda store: store.enqueue(new))
    claimed = await app.run(
        lambda store: store.claim("default", jobs_max=count, worker="gone", kinds=["suspect"])
    )
    assert sum(len(claim.jobs) for claim in claimed) == count


async def test_nothing_runs_beside_a_suspect(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "ASK_SECONDS", 0.1)
    running: list[str] = []
    beside: list[list[str]] = []
    ran: list[str] = []

    async def be(kind: str) -> None:
        running.append(kind)
        for _ in range(5):
            if "suspect" in running:
                beside.append(list(running))
            await asyncio.sleep(0.01)
        running.remove(kind)
        ran.append(kind)

    @app.job
    async def suspect() -> None:
        await be("suspect")

    @app.job
    async def work() -> None:
        await be("work")

    await claim_and_vanish(app, 3)
    await take_leases(app, worker="gone")
    await app.submit_many([work.call() for _ in range(30)])
    async with working(app, concurrency=5):
        await until(lambda: ran.count("suspect") == 3 and ran.count("work") == 30)
    assert beside
    assert all(one == ["suspect"] for one in beside)


async def test_a_long_job_neither_is_disturbed_by_a_suspect_nor_holds_up_the_rest(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(suspects, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(suspects, "EMPTY_SECONDS", 0.1)
    may_end, begun = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @app.job
    async def suspect() -> None:
        ran.append("suspect")

    @app.job
    async def long() -> None:
        begun.set()
        await may_end.wait()
        ran.append("long")

    @app.job
    async def work() -> None:
        ran.append("work")

    await claim_and_vanish(app, 1)
    await long.submit()
    async with working(app, concurrency=5):
        await begun.wait()
        await take_leases(app, worker="gone")
        for _ in range(5):
            await (await work.submit()).result(timeout=60)
            await asyncio.sleep(0.2)
        assert ran == ["work"] * 5
        may_end.set()
        await until(lambda: "suspect" in ran)
    assert ran[5:7] == ["long", "suspect"]
    said = [one.getMessage() for one in caplog.records if "beside it" in one.getMessage()]
    assert "takes nothing new for up to 0.1 s" in said[0]


async def test_a_suspect_runs_although_jobs_of_another_queue_keep_its_worker_busy(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(001-03)"""
    monkeypatch.setattr(suspects, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(suspects, "EMPTY_SECONDS", 0.1)
    ran: list[str] = []

    @app.job
    async def suspect() -> None:
        ran.append("suspect")

    @app.job(queue="busy")
    async def work() -> None:
        ran.append("work")
        await asyncio.sleep(0.4)

    async def submit() -> None:
        while "suspect" not in ran:
            await work.submit()  # the last has not ended
            await asyncio.sleep(0.05)

    await claim_and_vanish(app, 1)
    async with working(app, concurrency=50), asyncio.TaskGroup() as beside, asyncio.timeout(60):
        beside.create_task(submit())
        await until(lambda: len(ran) > 3)
        await take_leases(app, worker="gone")
        await until(lambda: "suspect" in ran)


def blocks(rules: Suspects, now: float, *, is_empty: bool = False) -> bool:
    return rules.blocks_claims(now, is_empty=is_empty, has_others=True)


def asks(rules: Suspects, queue: str, now: float, *, is_empty: bool = False) -> bool:
    return rules.asks(queue, now, is_empty=is_empty)


def test_for_a_suspect_a_busy_worker_waits_longer_each_time_and_then_works_as_long() -> None:
    rules = Suspects(["a", "b"])
    assert asks(rules, "a", 1.0)
    rules.found_none("a", 1.0)
    assert not asks(rules, "a", 1.0 + ASK_SECONDS / 2)
    assert asks(rules, "b", 1.0)
    assert asks(rules, "a", 1.0 + ASK_SECONDS)
    now = 100.0
    for seconds in (EMPTY_SECONDS, EMPTY_SECONDS * 2, EMPTY_SECONDS * 4):
        assert rules.found("a", now) == seconds
        assert blocks(rules, now + seconds * 0.9)
        now += seconds
        assert not blocks(rules, now)
        assert not asks(rules, "a", now + seconds * 0.9)
        now += seconds
        assert asks(rules, "a", now)
    rules.found("a", now)
    assert not blocks(rules, now, is_empty=True)
    assert rules.queue(now, is_empty=True) == "a"
    rules.take(suspect_run("a"), now)
    assert rules.found("b", now) == EMPTY_SECONDS


def suspect_run(queue: str) -> Run:
    run: Any = SimpleNamespace(lease=SimpleNamespace(queue=queue))
    return run  # type: ignore[no-any-return]


def test_while_a_suspect_runs_nothing_is_claimed() -> None:
    rules, run = Suspects(["a"]), suspect_run("a")
    rules.take(run, 1.0)
    assert blocks(rules, 1e9, is_empty=True)
    rules.ended(suspect_run("a"))
    assert blocks(rules, 1e9, is_empty=True)
    rules.ended(run)
    assert not blocks(rules, 1.0, is_empty=True)
    assert rules.queue(1.0, is_empty=True) == "a", "there may be more"


@pytest.mark.parametrize("queue", ["default", "others"])
async def test_other_work_runs_between_suspects(
    app: App, monkeypatch: pytest.MonkeyPatch, queue: str
) -> None:
    monkeypatch.setattr(suspects, "TURN_SECONDS", 0.1)
    ran: list[str] = []

    @app.job
    async def suspect() -> None:
        ran.append("suspect")
        await asyncio.sleep(0.15)

    @app.job(queue=queue)
    async def work() -> None:
        ran.append("work")

    await claim_and_vanish(app, 5)
    await take_leases(app, worker="gone")
    async with working(app, concurrency=5):
        await until(lambda: "suspect" in ran)
        await app.submit_many([work.call() for _ in range(3)])
        await until(lambda: len(ran) == 8)
    last = len(ran) - 1 - ran[::-1].index("suspect")
    assert "work" in ran[:last], "it did not wait for the last of them"


async def test_what_a_sweep_buries_is_told(app: App) -> None:
    heard: list[WorkerEvent] = []

    async def take_as_gone() -> None:
        await app.run(lambda store: store.claim("default", jobs_max=1, worker="gone"))

    await app.run(lambda store: store.enqueue([NewJob(kind="deadly", attempts_max=1)]))
    await take_as_gone()
    await take_leases(app, worker="gone")  # in company, for all that is known: a suspect now
    await take_as_gone()

    @app.job
    async def work() -> None: ...

    async with working(app, sweep_seconds=0.05, listeners=[heard.append]) as worker:
        await (await work.submit()).result(timeout=60)
        await run_out(app, worker="gone")
        await until(lambda: worker.record.counts.dead == 1)
    assert [one.jobs for one in heard if isinstance(one, BuriedDeadly)] == [1]
    [letter] = (await app.run(lambda store: store.dead_letters())).rows
    assert letter.job.kind == "deadly"
