"""Leases: what is started under them, what is given back, and what is waited for."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

import pytest

from inturn.executor.slots import ON_LOOP
from inturn.model.job import JobState
from inturn.model.lease import Claim
from inturn.policy.settlement import PLAINLY_DONE, Outcome, Settlement
from inturn.policy.verdict import Done, Release
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.worker import runs as runs_module
from inturn.worker.heartbeat import lease_now
from inturn.worker.runs import Run, Runs
from tests.worker.conftest import SECONDS_MAX, runs_of, until

WORKER = "w1"


async def claim_all(app: App, jobs: int) -> Claim:
    """Claim all jobs of the one lane there is."""
    [claim] = await app.run(lambda store: store.claim("default", jobs_max=jobs, worker=WORKER))
    assert len(claim.jobs) == jobs
    return claim


async def collected(runs: Runs, jobs: int) -> list[Settlement]:
    """Wait until so many jobs have ended, and return what is to be settled, of each lease once."""
    ended: dict[Run, list[Outcome]] = {}

    def all_have() -> bool:
        for run, outcomes in runs.collect():
            ended.setdefault(run, []).extend(outcomes)
        return sum(map(len, ended.values())) >= jobs

    await until(all_have)
    said = [runs.settlement(run, outcomes) for run, outcomes in ended.items()]
    return [one for one in said if one is not None]


@pytest.mark.parametrize("is_slow", [True, False], ids=["slow", "quick"])
async def test_behind_a_slow_job_of_a_lane_nothing_starts(
    app: App, is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_module, "SLOW_SECONDS", 0.0 if is_slow else SECONDS_MAX)
    ran: list[int] = []

    @app.job
    async def work(n: int) -> None:
        ran.append(n)

    tickets = await app.submit_many([work.using(key="a").call(n) for n in range(4)])
    claim = await claim_all(app, 4)
    runs = await runs_of(app)
    runs.take(claim).start()
    said = await collected(runs, 2 if is_slow else 4)
    assert runs.in_hand == 0
    await runs.slots.end()
    [settlement] = said
    verdicts = [type(outcome.verdict) for outcome in settlement.outcomes]
    await app.run(lambda store: store.settle(said, worker=WORKER))
    states = [(await ticket.status()).state for ticket in tickets]
    if is_slow:
        assert (ran, verdicts) == ([0], [Done, Release])
        assert states == [JobState.DONE, *[JobState.WAITING] * 3]
    else:
        assert (ran, verdicts) == ([0, 1, 2, 3], [Done] * 4)
        assert states == [JobState.DONE] * 4


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_under_a_lease_that_has_run_out_nothing_starts(app: App, key: str | None) -> None:
    ran: list[int] = []

    @app.job
    async def work(n: int) -> None:
        ran.append(n)

    tickets = await app.submit_many([work.using(key=key).call(n) for n in range(3)])
    claim = await claim_all(app, 3)
    runs = await runs_of(app)
    runs.take(claim, kept_until=lease_now() - 0.001).start()
    said = await collected(runs, 1 if key else 3)
    assert runs.in_hand == 0
    await runs.slots.end()
    await app.run(lambda store: store.settle(said, worker=WORKER))
    assert ran == []
    assert {type(one.verdict) for one in said[0].outcomes} == {Release}
    again = await app.run(lambda store: store.claim("default", jobs_max=3, worker=WORKER))
    assert {job.id for one in again for job in one.jobs} == {ticket.id for ticket in tickets}
    assert {job.attempt for one in again for job in one.jobs} == {1}


async def test_what_was_claimed_before_the_machine_slept_does_not_start(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, ran = asyncio.Event(), asyncio.Event(), list[int]()

    @app.job
    async def work(n: int) -> None:
        ran.append(n)
        begun.set()
        await may_end.wait()

    await app.submit_many([work.using(key="a").call(n) for n in range(2)])
    claim = await claim_all(app, 2)
    runs = await runs_of(app)
    async with asyncio.timeout(SECONDS_MAX):
        runs.take(claim, kept_until=lease_now() + 600).start()
        await begun.wait()
        monkeypatch.setattr(runs_module, "lease_now", lambda: lease_now() + 3_600)
        may_end.set()
        said = await collected(runs, 2)
    await runs.slots.end()
    assert [type(one.verdict) for one in said[0].outcomes] == [Done, Release]
    assert ran == [0]
    await app.run(lambda store: store.settle(said, worker=WORKER))


async def test_a_lane_that_is_lost_while_its_job_runs_asks_for_no_slot(app: App) -> None:
    @app.job
    async def work() -> None: ...

    await app.submit_many([work.using(key="a").call() for _ in range(2)])
    claim = await claim_all(app, 2)
    runs = await runs_of(app)
    run = runs.take(claim)
    job = run.next(ON_LOOP)
    assert job is not None
    runs.lose([claim.lease])
    assert run.ended(job, Outcome(job, PLAINLY_DONE), None) is None
    assert not runs


async def test_of_leases_noted_at_once_by_two_threads_one_rouses_the_worker(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    async def work() -> None: ...

    await app.submit_many([work.using(key=key).call() for key in "ab"])
    claims = await app.run(lambda store: store.claim("default", jobs_max=2, worker=WORKER))
    runs = await runs_of(app)
    both = threading.Barrier(2)

    class Fresh(deque[Run]):
        def append(self, run: Run) -> None:
            super().append(run)
            both.wait(SECONDS_MAX)

    monkeypatch.setattr(runs, "_fresh", Fresh())
    async with asyncio.TaskGroup() as notes:
        for claim in claims:
            notes.create_task(asyncio.to_thread(runs.note, runs.take(claim)))
    async with asyncio.timeout(SECONDS_MAX):
        await runs.queues.wake.wait()


async def test_a_lease_is_prolonged_only_while_it_has_not_run_out(app: App) -> None:
    @app.job
    async def work() -> None: ...

    await work.submit()
    claim = await claim_all(app, 1)
    runs = await runs_of(app)
    run = runs.take(claim, kept_until=10.0)
    runs.keep([claim.lease], asked_at=9.0, until=39.0)
    assert run.kept_until == 39.0
    runs.keep([claim.lease], asked_at=39.1, until=69.1)
    assert run.kept_until == 39.0


async def test_a_transaction_in_a_lane_waits_until_the_jobs_before_it_are_settled(
    app: App,
) -> None:
    """A lane is settled in order, and this one's first job has ended without being settled yet."""
    entered: list[int] = []
    before = asyncio.Event()

    @app.job
    async def work(ctx: Context, n: int) -> None:
        if n:
            before.set()
            async with ctx.transaction():
                entered.append(n)

    tickets = await app.submit_many([work.using(key="a").call(n) for n in range(2)])
    claim = await claim_all(app, 2)
    runs = await runs_of(app)
    run = runs.take(claim)
    run.start()
    async with asyncio.timeout(SECONDS_MAX):
        await before.wait()
    for _ in range(20):  # time enough to open a transaction, if nothing holds it up
        await app.run(lambda store: store.now())
    assert entered == []
    said = await collected(runs, 1)
    await app.run(lambda store: store.settle(said, worker=WORKER))
    run.settled(1)
    assert await collected(runs, 1) == []
    assert entered == [1]
    assert [(await ticket.status()).state for ticket in tickets] == [JobState.DONE] * 2
    await runs.slots.end()
