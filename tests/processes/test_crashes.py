"""Worker processes that are killed, stopped for a while, or too slow for their lease."""

from __future__ import annotations

import signal
import time

import pytest

from inturn.model.job import JobState
from tests.processes.jobs import count, hold, hold_loop, hold_thread
from tests.processes.support import PATIENT, Place, until

SETTINGS = ("--lease", "3s", "--sweep", "500ms")
BRIEF = ("--lease", "3s", "--sweep", "3s")  # together at most 6.75 s
LONG_SECONDS = 25  # a lease with time for that, prolonged every 5 s, on a machine that is busy
LASTING = ("--lease", "60s", "--sweep", "500ms")  # a heartbeat every 500 ms, and a lease that lasts


def test_001_03_001_23_003_11_a_job_of_a_killed_worker_runs_elsewhere_within_lease_and_sweep(
    place: Place,
) -> None:
    """Before a lease that is several times as long runs out.

    That lease is of a worker killed at the same moment: its job is still its own by then.
    """
    other = place.work("--lease", f"{LONG_SECONDS}s", "--slots", "1")
    place.submit(hold.call("long"))
    place.began("long")
    first = place.work(*BRIEF)
    place.submit(hold.call("open"), hold_thread.using(key="k").call("keyed"))
    for name in ("open", "keyed"):
        place.began(name)
    second = place.work(*BRIEF)  # it sweeps when it begins, and then as often as it should
    for worker in (other, first):
        worker.kill()
    again = until(lambda: place.effects("began")[3:])  # a suspect runs alone: the other waits
    now = place.store(lambda store: store.now())
    running = place.store(lambda store: store.jobs(state=JobState.RUNNING)).rows
    leases = {one.worker: one.leased_until for one in running if one.leased_until}
    assert leases.get(other.name, now) > now
    assert [one.pid for one in again] == [second.pid]
    place.let_end("open", "keyed")
    until(lambda: len(place.effects("ended")) == 2)
    assert {one.name for one in place.effects("ended")} == {"open", "keyed"}
    assert [one.pid for one in place.effects("ended")] == [second.pid] * 2


def test_001_04_a_job_longer_than_its_lease_is_not_stolen(place: Place) -> None:
    """It is prolonged on the loop, on a thread, while the loop is blocked."""
    first = place.work(*LASTING)
    place.submit(hold.call("async"), hold_thread.call("thread"))
    place.began("async")
    place.began("thread")
    place.submit(hold_loop.call("blocked"))
    place.began("blocked")
    second = place.work(*LASTING)
    for _ in range(3):
        place.until_prolonged()
    place.let_end("async", "thread", "blocked")
    place.until_done()
    assert [one.pid for one in place.effects("began")] == [first.pid] * 3
    assert [one.pid for one in place.effects("ended")] == [first.pid] * 3
    assert not first.events("leases_lost") + second.events("leases_lost")


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
def test_001_05_a_worker_that_was_stopped_past_its_lease_can_settle_nothing(
    place: Place, is_async: bool
) -> None:
    """What can be cancelled is, as soon as it hears of it."""
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


def test_001_05_a_worker_that_was_stopped_past_its_lease_starts_nothing_more_of_what_it_holds(
    sqlite_place: Place,
) -> None:
    """It goes on in the middle of a lane's first job, and cannot hear that it lost the rest."""
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
