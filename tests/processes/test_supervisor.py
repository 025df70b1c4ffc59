"""``--processes``: a supervisor that keeps its processes going, and processes that end with it."""

from __future__ import annotations

import os
import signal

import pytest

from inturn.model.worker import WorkerView
from tests.processes.jobs import count, hold, hold_thread, leave
from tests.processes.support import PATIENT, Place, is_gone, until


def members(place: Place, number: int) -> list[WorkerView]:
    """Wait until so many were heard of."""
    until(lambda: len(place.views()) >= number)
    return sorted(place.views(), key=lambda view: view.id)


def test_a_process_that_is_killed_is_replaced_and_its_job_run(place: Place) -> None:
    """(001-03, 003-11)"""
    crew = place.work("--processes", "2", "--lease", "2s", "--sweep", "500ms")
    place.submit(hold.call("h"))
    killed = place.began("h").pid
    first = members(place, 2)
    assert crew.pid not in {view.pid for view in first}
    os.kill(killed, signal.SIGKILL)
    died = crew.heard("member_died")
    assert (died["pid"], died["how"]) == (killed, "was killed by SIGKILL")
    [name] = [view.id for view in first if view.pid == killed]
    assert died["worker"] == name
    until(lambda: f"{name}.2" in [view.id for view in place.views()])
    assert place.began("h", times=2).pid != killed
    views = place.views()
    place.let_end("h")
    place.until_done()
    crew.signal(signal.SIGTERM)
    assert crew.ended() == 0
    assert all(is_gone(view.pid) for view in views)
    stopped = crew.heard("stopped")
    assert (stopped["counts"]["done"], stopped["members_died"]) == (1, 1)


def test_a_signal_to_the_parent_lets_every_process_finish(sqlite_place: Place) -> None:
    place = sqlite_place
    crew = place.work("--processes", "2", "--concurrency", "1")
    members(place, 2)
    place.submit(hold.call("h1"), hold_thread.call("h2"))
    pids = {place.began(name).pid for name in ("h1", "h2")}
    assert len(pids) == 2
    crew.signal(signal.SIGINT)
    crew.heard("stopping")
    for pid in pids:
        os.kill(pid, signal.SIGTERM)  # as systemd may: what the parent passed on comes twice
    names = {crew.name, *(f"{crew.name}-{n}" for n in (1, 2))}
    until(lambda: {one["worker"] for one in crew.events("stopping")} == names)
    place.submit(count.call("open", 1))
    place.let_end("h1", "h2")
    assert crew.ended() == 0
    assert {one.pid for one in place.effects("ended")} == pids
    assert not place.effects("count")
    assert crew.heard("stopped")["counts"]["done"] == 2


def test_a_second_signal_to_the_parent_gives_back_what_runs(sqlite_place: Place) -> None:
    place = sqlite_place
    crew = place.work("--processes", "2", target=PATIENT)
    place.submit(hold.call("h1"), hold_thread.call("h2"))
    pids = {place.began(name).pid for name in ("h1", "h2")}
    crew.signal(signal.SIGTERM)
    crew.heard("stopping")
    crew.signal(signal.SIGTERM)
    assert crew.ended() == 128 + signal.SIGTERM
    assert all(is_gone(pid) for pid in pids)
    assert (place.running(), place.left()) == (0, 2)
    assert not place.effects("ended")


def test_a_process_that_cannot_end_is_killed_after_the_second_signal(sqlite_place: Place) -> None:
    place = sqlite_place
    crew = place.work("--processes", "2")
    [stuck, _] = members(place, 2)
    place.stop(stuck.pid)
    for heard in ("stopping", "stopping_now"):
        crew.signal(signal.SIGTERM)
        crew.heard(heard)
    assert crew.ended() == 128 + signal.SIGTERM
    assert is_gone(stuck.pid)


def test_processes_whose_parent_is_killed_finish_and_end(sqlite_place: Place) -> None:
    place = sqlite_place
    crew = place.work("--processes", "2")
    views = members(place, 2)
    place.submit(hold.call("h"))
    holder = place.began("h").pid
    crew.kill()
    [other] = [view.pid for view in views if view.pid != holder]
    until(lambda: is_gone(other))
    assert not is_gone(holder)
    [said] = until(lambda: [one for one in crew.events("stopping") if one["running"]])
    assert (said["why"], said["is_member"]) == ("its parent is gone", True)
    assert said["seconds_max"] == 30.0
    place.let_end("h")
    until(lambda: is_gone(holder))
    assert place.left() == 0
    assert [one.pid for one in place.effects("ended")] == [holder]


def test_several_processes_drain_a_store_together(sqlite_place: Place) -> None:
    place = sqlite_place
    place.submit(*(count.call("open", n) for n in range(100)))
    crew = place.start("--processes", "2", "--drain")
    assert crew.ended() == 0
    stopped = crew.heard("stopped")
    assert (stopped["counts"]["done"], stopped["members_died"]) == (100, 0)
    assert len(place.effects()) == 100


def test_a_drain_in_which_a_process_died_fails_and_says_to_run_it_again(
    sqlite_place: Place,
) -> None:
    place = sqlite_place
    place.submit(leave.call("job", times=1, code=3))
    drain = ("--processes", "2", "--drain", "--lease", "2s", "--sweep", "500ms")
    crew = place.start(*drain)
    assert crew.ended() == 1
    how = "ended with exit code 3; run the drain again for what it had in hand"
    assert crew.heard("member_died")["how"] == how
    # A second later: the other process may have taken the job back, which then waits a second.
    until(lambda: place.start(*drain).ended() == 0 and not place.left())
    assert [one.number for one in place.effects("ended", "job")] == [2]


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("tests.processes.nowhere:app", 2, "there is no module 'tests.processes.nowhere'"),
        ("tests.processes.failing:app", 1, "OSError: no such host"),
    ],
)
def test_what_keeps_the_first_from_beginning_is_said_once_and_no_other_is_started(
    sqlite_place: Place, target: str, code: int, said: str
) -> None:
    crew = sqlite_place.start("--processes", "3", target=target)
    assert crew.ended() == code
    assert crew.errors.count("inturn: ") == crew.errors.count(said) == 1
    assert crew.events() == []
    assert sqlite_place.views() == []
