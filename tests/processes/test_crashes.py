"""Worker processes that are killed, stopped for a while, or too slow for their lease."""

from __future__ import annotations

import signal
import time
from datetime import datetime, timedelta

import pytest

from inturn.model.job import JobState
from tests.processes.jobs import count, hold, hold_loop, hold_thread
from tests.processes.support import PATIENT, TIMED, Place, WorkerProcess, until

SETTINGS = ("--lease", "3s", "--sweep", "500ms")
LASTING = ("--lease", "60s", "--sweep", "500ms")  # a heartbeat every 500 ms, and a lease that lasts


LEASE_SECONDS, SWEEP_SECONDS = 3.0, 2.0
BRIEF = ("--lease", f"{LEASE_SECONDS:g}s", "--sweep", f"{SWEEP_SECONDS:g}s")
RECOVERY_SECONDS_MAX = LEASE_SECONDS + 1.25 * SWEEP_SECONDS


def test_a_job_of_a_killed_worker_runs_elsewhere_within_lease_and_sweep(
    place: Place,
) -> None:
    """By no more later than the machine held up the worker that it runs in, which was idle.

    (001-03, 001-23, 003-11)
    """
    first = place.work(*BRIEF)
    place.submit(hold.call("open"), hold_thread.using(key="k").call("keyed"))
    for name in ("open", "keyed"):
        place.began(name)
    second = place.work(*BRIEF, target=TIMED)  # it sweeps now, and then as often as it should
    late_before = place.late_seconds(second)
    killed_at = time.time()
    first.kill()
    again = until(lambda: place.effects("began")[2:])  # a suspect runs alone: the other waits
    recovery_seconds = place.last_effect_at() - killed_at
    late_seconds = place.late_seconds(second) - late_before
    assert [one.pid for one in again] == [second.pid]
    assert recovery_seconds < RECOVERY_SECONDS_MAX + late_seconds
    place.let_end("open", "keyed")
    until(lambda: len(place.effects("ended")) == 2)
    assert {one.name for one in place.effects("ended")} == {"open", "keyed"}
    assert [one.pid for one in place.effects("ended")] == [second.pid] * 2


def test_work_goes_on_at_once_when_a_killed_worker_is_started_again(place: Place) -> None:
    """(B-07) Within two seconds of a worker that works, on the same machine, whatever the lease."""
    first = place.work(*LASTING)
    place.submit(hold.call("open"), hold_thread.using(key="k").call("keyed"))
    for name in ("open", "keyed"):
        place.began(name)
    until(lambda: any(view.process for view in place.views()))
    first.kill()
    second = place.work(*LASTING, target=TIMED)
    started_at = time.time()
    until(lambda: place.effects("began")[2:])  # a suspect runs alone: the other waits
    assert place.last_effect_at() - started_at < 2.0 + place.late_seconds(second)
    place.let_end("open", "keyed")
    until(lambda: len(place.effects("ended")) == 2)
    assert [one.pid for one in place.effects("ended")] == [second.pid] * 2


def test_a_job_that_blocks_its_loop_for_longer_than_its_lease_is_not_stolen(
    place: Place,
) -> None:
    """Another worker, which is idle, sweeps all the while.

    Only where the machine held up the first for a part of its lease, it is given a longer one.
    (001-04)
    """
    for lease_seconds in (4, 8, 16, 32):
        settings = ("--lease", f"{lease_seconds}s", "--sweep", "500ms")
        name = f"blocked-{lease_seconds}"
        first = place.work(*settings, target=TIMED)
        place.submit(hold_loop.call(name))
        place.began(name)
        [leased_until] = place.leases().values()
        second = place.work(*settings)
        gone_by = leased_until + timedelta(seconds=lease_seconds / 2)  # and there was a sweep since
        until(lambda: is_seen_after(place, second, gone_by))  # noqa: B023
        late_seconds = place.late_seconds(first)
        place.let_end(name)
        place.until_done()
        ran = [one.pid for one in place.effects("began", name)]
        for worker in (first, second):
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 0
        if ran == [first.pid] and not first.events("leases_lost"):
            return
        held_up = f"and the machine held up the first, {first.pid}, for {late_seconds:.2f} s only"
        assert late_seconds > lease_seconds / 4, f"it ran in {ran}, {held_up}"
    pytest.fail("a machine that holds up its processes for so long tells nothing")


def is_seen_after(place: Place, worker: WorkerProcess, moment: datetime) -> bool:
    """Whether a worker has beaten after a moment, by the store's clock."""
    seen = [view.seen_at for view in place.views() if view.id == worker.name]
    return any(at is not None and at > moment for at in seen)


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
def test_a_worker_that_was_stopped_past_its_lease_can_settle_nothing(
    place: Place, is_async: bool
) -> None:
    """What can be cancelled is, as soon as it hears of it. (001-05)"""
    first = place.work(*SETTINGS)
    place.submit((hold if is_async else hold_thread).using(key="k").call("h"))
    place.began("h")
    place.stop(first.pid)
    second = place.work(*LASTING)
    assert place.began("h", times=2).pid == second.pid
    first.signal(signal.SIGCONT)
    lost = first.heard("leases_lost")
    assert (lost["jobs"], lost["cancelled"], lost["going_on"]) == (1, is_async, not is_async)
    place.let_end("h", pid=first.pid)
    end = "cancelled" if is_async else "ended"
    until(lambda: [one.pid for one in place.effects(end)] == [first.pid])
    [view] = place.store(lambda store: store.jobs()).rows
    assert (view.state, view.worker) == (JobState.RUNNING, second.name)
    place.let_end("h", pid=second.pid)
    place.until_done()
    for worker in (first, second):
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
    counts = [worker.heard("stopped")["counts"] for worker in (first, second)]
    assert [(one["done"], one["lost"]) for one in counts] == [(0, 1), (1, 0)]


def test_a_worker_that_was_stopped_past_its_lease_starts_nothing_more_of_what_it_holds(
    sqlite_place: Place,
) -> None:
    """It goes on in the middle of a lane's first job, and cannot hear that it lost the rest.

    (001-05)
    """
    place = sqlite_place
    first = place.work(*SETTINGS, target=PATIENT)
    place.submit(*[count.call("quick", n) for n in range(500)])  # so that it takes many at a time
    place.until_done()
    place.submit(
        hold_thread.using(key="k").call("h"),
        *[count.using(key="k").call("k", n) for n in range(5)],
    )
    place.began("h")
    until(lambda: [view.running for view in place.views()] == [6])  # all of it is in its hands
    place.let_end("h", pid=first.pid)
    place.stop(first.pid)
    second = place.work(*LASTING)
    assert place.began("h", times=2).pid == second.pid
    with place.locked():  # no heartbeat is answered
        first.signal(signal.SIGCONT)
        until(lambda: [one.pid for one in place.effects("ended")] == [first.pid])
        time.sleep(0.5)  # time enough to start what comes next
    first.heard("leases_lost")
    assert place.effects("count", "k") == []  # the second is at the lane's first job
    place.let_end("h", pid=second.pid)
    place.until_done()  # whoever is free takes the rest
    assert [one.number for one in place.effects("count", "k")] == list(range(5))
