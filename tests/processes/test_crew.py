"""``--processes``: a parent that keeps its processes going, and processes that end with it."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from inturn.model.job import JobState
from inturn.model.worker import WorkerView
from tests.processes.failing_end import note
from tests.processes.jobs import count, hold, hold_and_leave, hold_loop, hold_thread, leave
from tests.processes.support import PATIENT, Place, is_gone, until


def members(place: Place, number: int) -> list[WorkerView]:
    """Wait until so many were heard of."""
    until(lambda: len(place.views()) >= number)
    return sorted(place.views(), key=lambda view: view.id)


def test_001_03_003_11_a_process_that_is_killed_is_replaced_and_its_job_run(place: Place) -> None:
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
    views = members(place, 3)
    assert f"{name}.2" in [view.id for view in views]
    assert place.began("h", times=2).pid != killed
    place.let_end("h")
    place.until_done()
    crew.signal(signal.SIGTERM)
    assert crew.ended() == 0
    assert all(is_gone(view.pid) for view in views)
    stopped = crew.heard("stopped")
    assert (stopped["counts"]["done"], stopped["members_died"]) == (1, 1)


def test_a_signal_to_the_parent_lets_every_process_finish(place: Place) -> None:
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
    assert {one["worker"] for one in crew.events("stopping") if not one["is_member"]} == {crew.name}
    place.submit(count.call("open", 1))
    place.let_end("h1", "h2")
    assert crew.ended() == 0
    assert {one.pid for one in place.effects("ended")} == pids
    assert not place.effects("count")
    assert crew.heard("stopped")["counts"]["done"] == 2


def test_a_second_signal_to_the_parent_gives_back_what_runs(place: Place) -> None:
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


def test_processes_whose_parent_is_killed_finish_and_end(place: Place) -> None:
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


def test_processes_whose_parent_is_killed_give_back_what_does_not_end(place: Place) -> None:
    crew = place.work("--processes", "2", "--lease", "3s")
    views = members(place, 2)
    place.submit(hold.call("async"), hold_thread.call("thread"))
    place.began("async")
    place.began("thread")
    place.submit(hold_loop.call("blocked"))
    place.began("blocked")
    crew.kill()
    until(lambda: all(is_gone(view.pid) for view in views))
    assert place.effects("ended") == []
    assert {one.name for one in place.effects("cancelled")} <= {"async"}
    second = place.work("--lease", "3s", "--sweep", "500ms")
    for name in ("async", "thread", "blocked"):
        place.let_end(name)
    place.until_done()
    assert {(one.name, one.pid) for one in place.effects("ended")} == {
        (name, second.pid) for name in ("async", "thread", "blocked")
    }


def test_a_crew_stops_by_itself_when_nothing_is_left(place: Place) -> None:
    place.submit(*(count.call("open", n) for n in range(100)))
    crew = place.start("--processes", "2", "--drain")
    assert crew.ended() == 0
    stopped = crew.heard("stopped")
    assert (stopped["counts"]["done"], stopped["members_died"]) == (100, 0)
    assert len(place.effects()) == 100


@pytest.mark.parametrize(
    ("code", "how"),
    [(0, "ended with exit code 0, though it had not finished"), (3, "ended with exit code 3")],
)
def test_a_job_that_ends_its_process_does_not_end_a_drain(
    place: Place, code: int, how: str
) -> None:
    place.submit(leave.call("job", times=1, code=code))
    crew = place.start("--processes", "2", "--drain", "--lease", "2s", "--sweep", "500ms")
    assert crew.ended() == 0
    assert [one.number for one in place.effects("ended", "job")] == [2]
    assert place.left() == 0
    assert crew.heard("member_died")["how"] == how


def test_a_job_that_ends_every_process_is_buried_and_a_drain_comes_to_its_end(
    place: Place,
) -> None:
    place.submit(leave.call("poison", times=100), count.call("open", 1))
    crew = place.start("--processes", "2", "--drain", "--lease", "1s", "--sweep", "300ms")
    assert crew.ended() == 0
    [dead] = place.store(lambda store: store.dead_letters()).rows
    assert (dead.job.kind, dead.reason) == (
        "leave",
        "its worker died 3 times while running it alone",
    )
    assert place.left() == 0
    assert len(place.effects("count")) >= 1


def test_a_process_that_a_job_ends_while_the_crew_stops_is_no_good_end(place: Place) -> None:
    crew = place.work("--processes", "2")
    place.submit(hold_and_leave.call("h"))
    place.began("h")
    crew.signal(signal.SIGTERM)
    crew.heard("stopping")
    place.let_end("h")
    assert crew.ended() == 1
    assert place.left() == 1
    assert crew.heard("stopped")["members_died"] == 1


@pytest.mark.parametrize("target", ["no.such:app", "tests.processes.support"])
def test_nothing_is_started_again_that_never_came_up(sqlite_place: Place, target: str) -> None:
    crew = sqlite_place.start("--processes", "3", target=target)
    assert crew.ended() == 2
    assert crew.errors.count("inturn: ") == 1
    assert crew.events() == []


@pytest.mark.parametrize("processes", ["1", "3"])
def test_a_start_hook_that_fails_is_said_once_and_nothing_is_started_again(
    sqlite_place: Place, processes: str
) -> None:
    crew = sqlite_place.start("--processes", processes, target="tests.processes.failing:app")
    assert crew.ended() == 1
    [line] = [line for line in crew.errors.splitlines() if line.startswith("inturn: ")]
    assert "the hook 'connect', to be called when a worker starts, failed: " in line
    assert "OSError: no such host" in line
    assert crew.events() == []
    assert [one.name for one in sqlite_place.effects("started")] == ["connect"]
    assert sqlite_place.views() == []


@pytest.mark.parametrize("drains", [True, False], ids=["drains", "is told to stop"])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_stop_hook_that_fails_is_told_when_all_is_settled_and_nothing_is_started_again(
    sqlite_place: Place, processes: str, drains: bool
) -> None:
    sqlite_place.submit(note.call("a"))
    options = ["--processes", processes, *(["--drain"] if drains else [])]
    crew = sqlite_place.start(*options, target="tests.processes.failing_end:app")
    if not drains:
        crew.heard("started")
        until(lambda: sqlite_place.states() == [JobState.DONE])
        crew.signal(signal.SIGTERM)
    assert crew.ended() == 1
    assert sqlite_place.states() == [JobState.DONE]
    stopped = crew.heard("stopped")
    assert (stopped["counts"]["done"], stopped["members_died"]) == (1, 0)
    lines = [line for line in crew.errors.splitlines() if line.startswith("inturn: ")]
    said = "inturn: the hook 'part', to be called when a worker stops, failed: BrokenPipeError: "
    assert 1 <= len(lines) <= int(processes)  # one that had not begun has nothing to part from
    assert {line.startswith(said) for line in lines} == {True}
    assert crew.events("member_died") == []


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("os._exit(0)", "ended with exit code 0, though it had not finished"),
        ("os._exit(7)", "ended with exit code 7"),
        ("KeyboardInterrupt", "was killed by SIGINT"),
        ("cancel", "ended with exit code 1"),
    ],
)
def test_a_process_that_a_stop_hook_ends_is_told_of_and_does_not_drain_again(
    sqlite_place: Place, end: str, how: str
) -> None:
    sqlite_place.environment["RUDE_END"] = end
    sqlite_place.submit(note.call("a"))
    crew = sqlite_place.start("--processes", "2", "--drain", target="tests.processes.rude_end:app")
    assert crew.ended() == 1
    assert sqlite_place.states() == [JobState.DONE]
    stopped = crew.heard("stopped")
    assert (stopped["counts"]["done"], stopped["members_died"]) == (1, 0)
    died = crew.events("member_died")
    assert {(one["how"], one["restart_seconds"]) for one in died} == {(how, None)}
    assert len({one["worker"] for one in died}) == len(died) <= 2


@pytest.mark.parametrize("code", [0, 1, 2, 7])
@pytest.mark.parametrize("processes", ["2", "3"])
def test_a_process_that_ends_itself_before_it_works_is_told_of(
    sqlite_place: Place, processes: str, code: int
) -> None:
    sqlite_place.environment["GONE_WITH"] = str(code)
    crew = sqlite_place.start("--processes", processes, "--drain", target="tests.processes.gone")
    assert crew.ended() == (code or 1)
    [died] = crew.events()
    assert died["event"] == "member_died"
    assert died["how"] == f"ended with exit code {code}, before it had begun to work"
    assert died["restart_seconds"] is None
    assert crew.errors == ""


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("tests.processes.nowhere:app", 2, "there is no module 'tests.processes.nowhere'"),
        ("tests.processes.failing:app", 1, "OSError: no such host"),
    ],
)
def test_what_a_process_has_said_itself_is_not_told_again(
    sqlite_place: Place, target: str, code: int, said: str
) -> None:
    crew = sqlite_place.start("--processes", "2", target=target)
    assert crew.ended() == code
    assert crew.errors.count("inturn: ") == crew.errors.count(said) == 1
    assert crew.events() == []


def test_a_crew_of_an_app_with_very_many_kinds_begins(sqlite_place: Place) -> None:
    crew = sqlite_place.work("--processes", "2", target="tests.processes.many_kinds:app")
    assert len(crew.heard("started")["kinds"]) == 1_500
    members(sqlite_place, 2)
    crew.signal(signal.SIGTERM)
    assert crew.ended() == 0


def test_a_parent_that_cannot_start_a_process_goes_on_and_tries_again(sqlite_place: Place) -> None:
    crew = sqlite_place.work("--processes", "2")
    [first, second] = members(sqlite_place, 2)
    limits = resource.prlimit(crew.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(crew.pid, resource.RLIMIT_NOFILE, (3, limits[1]))  # it may open nothing more
    os.kill(second.pid, signal.SIGKILL)
    unstarted = until(lambda: [one for one in crew.events("member_died") if not one["pid"]])[0]
    assert "could not be started: OSError: [Errno 24] Too many open files" in unstarted["how"]
    resource.prlimit(crew.pid, resource.RLIMIT_NOFILE, limits)
    views = members(sqlite_place, 3)
    assert first.pid in {view.pid for view in views}
    assert not is_gone(first.pid)
    crew.signal(signal.SIGTERM)
    assert crew.ended() == 0


def test_a_name_that_leaves_no_room_for_those_of_the_processes_is_refused(
    sqlite_place: Place,
) -> None:
    crew = sqlite_place.start("--processes", "2", "--name", "n" * 198)
    assert crew.ended() == 2
    assert "the name of a crew has 198 characters" in crew.errors
    assert sqlite_place.views() == []
