"""SIGTERM and Ctrl-C: the first lets what runs finish, the second does not."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import termios

import pytest

from inturn.model.job import JobState
from tests.cli.support import COMMAND
from tests.processes import rude
from tests.processes.jobs import count, hold, hold_loop, hold_thread
from tests.processes.support import APP, PATIENT, ROOT, SECONDS_MAX, Place, until

RUDE = "tests.processes.rude:app"
ALONE_AND_CREW = pytest.mark.parametrize(
    "flags", [[], ["--processes", "2"]], ids=["alone", "processes"]
)


def test_a_signal_finishes_what_runs_and_releases_the_rest_at_once(place: Place) -> None:
    """(001-21)"""
    first = place.work("--concurrency", "2", target=PATIENT)
    quick = [count.call("open", n) for n in range(300)]
    place.submit(*quick[:200])
    until(lambda: not place.left())
    place.submit(hold.call("h1"), hold_thread.call("h2"))
    place.began("h1")
    place.began("h2")
    place.submit(*quick[200:])
    until(lambda: place.running() > 2)  # it took more than it can start, for they were quick
    first.signal(signal.SIGTERM)
    assert first.heard("stopping")["running"] == 2
    until(lambda: place.running() == 2)
    second = place.start("--drain")
    assert second.ended() == 0
    assert second.heard("stopped")["counts"]["done"] > 0
    assert place.left() == 2
    assert not place.effects("ended")
    place.let_end("h1", "h2")
    assert first.ended() == 0
    assert first.heard("stopped")["counts"]["released"] > 0
    place.until_done()
    assert sorted(one.number for one in place.effects("count")) == list(range(300))
    assert len(place.effects("ended")) == 2


def test_a_signal_releases_the_rest_of_a_key_at_once_and_starts_none_of_it(
    place: Place,
) -> None:
    """The batch behind a job that runs is in the worker's hands already. (001-21)"""
    first = place.work(target=PATIENT)
    place.submit(*(count.call("open", n) for n in range(400)))
    until(lambda: not place.left())  # they were quick, so it takes more than it can start
    key = "k"
    place.submit(
        hold.using(key=key).call("h"), *(count.using(key=key).call(key, n) for n in range(20))
    )
    place.began("h")
    until(lambda: place.running() > 1)
    first.signal(signal.SIGTERM)
    first.heard("stopping")
    place.let_end("h")  # what is behind it is given back when it ends, and not a lease later
    assert first.ended() == 0
    assert not place.effects("count", key)
    assert not place.running()
    left = place.store(lambda store: store.jobs(state=JobState.WAITING)).rows
    assert [view.attempt for view in left] == [0] * 20
    assert first.heard("stopped")["counts"]["released"] > 0


def test_a_second_signal_gives_back_what_runs_and_stops_at_once(sqlite_place: Place) -> None:
    place = sqlite_place
    first = place.work(target=PATIENT)
    place.submit(
        hold.using(key="k").call("h1"),
        count.using(key="k").call("k", 1),
        hold_thread.call("h2"),
    )
    place.began("h1")
    place.began("h2")
    first.signal(signal.SIGINT)
    first.heard("stopping")
    first.signal(signal.SIGINT)
    assert first.ended() == 128 + signal.SIGINT
    first.heard("stopping_now")
    assert not place.effects("ended")
    assert not place.running()
    given_back = (JobState.WAITING, JobState.SCHEDULED)  # for a second, if a thread may still run
    assert all(state in given_back for state in place.states())
    place.let_end("h1", "h2")
    second = place.work()
    place.until_done()
    ended = [(one.name, one.number, one.pid) for one in place.effects("ended")]
    assert sorted(ended) == [("h1", 1, second.pid), ("h2", 1, second.pid)], "an attempt was counted"


def test_a_second_signal_ends_a_worker_whose_loop_is_blocked(sqlite_place: Place) -> None:
    worker = sqlite_place.work()
    sqlite_place.submit(hold_loop.call("h"))
    sqlite_place.began("h")
    worker.signal(signal.SIGTERM)
    worker.heard("stopping")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 128 + signal.SIGTERM


def test_a_worker_that_stops_leaves_the_list_and_one_that_is_killed_does_not(
    sqlite_place: Place,
) -> None:
    place = sqlite_place
    first, second, crew = place.work(), place.work(), place.work("--processes", "2")
    names = {first.name, second.name, f"{crew.name}-1", f"{crew.name}-2"}
    until(lambda: {view.id for view in place.views()} == names)
    for worker in (first, crew):
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
    assert [view.id for view in place.views()] == [second.name]
    second.kill()
    assert [view.id for view in place.views()] == [second.name]


@ALONE_AND_CREW
def test_a_worker_whose_terminal_is_closed_finishes_what_runs(
    sqlite_place: Place, flags: list[str]
) -> None:
    place = sqlite_place
    terminal, its = pty.openpty()
    worker = subprocess.Popen(
        [*COMMAND, "work", APP, *flags],
        cwd=ROOT,
        env=place.environment,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        os.close(its)
        place.submit(hold.call("h"))
        place.began("h")
        os.close(terminal)
        place.let_end("h")
        worker.wait(SECONDS_MAX)  # its output is gone, so Python may leave with an error
    finally:
        worker.kill()
        worker.wait()
    assert len(place.effects("ended", "h")) == 1
    assert place.views() == []


def test_a_handler_that_terminates_its_child_does_not_stop_its_worker(sqlite_place: Place) -> None:
    worker = sqlite_place.work(target=RUDE)
    sqlite_place.submit(rude.terminate_on_thread.call())
    [ended] = until(lambda: sqlite_place.effects("ended", "child"))
    assert ended.number == -signal.SIGTERM
    sqlite_place.until_done()
    assert not worker.events("stopping")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
