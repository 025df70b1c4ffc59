"""SIGTERM and Ctrl-C: the first lets what runs finish, the second does not."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress

import pytest

from inturn.model.job import JobState
from inturn.queue.job import Job
from tests.cli.support import COMMAND, INHERITED
from tests.processes import default_timeout, rude
from tests.processes.jobs import count, fail, hold, hold_loop, hold_thread
from tests.processes.support import APP, PATIENT, ROOT, SECONDS_MAX, Place, until

RUDE = "tests.processes.rude:app"
ALONE_AND_CREW = pytest.mark.parametrize(
    "flags", [[], ["--processes", "2"]], ids=["alone", "processes"]
)

HANGUP = """
import os, signal, sys
signal.signal(signal.SIGHUP, eval(sys.argv[1]))
from inturn.worker.stop_signals import StopSignals
with StopSignals() as signals:
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
print(*(number.name for number, _ in signals.heard()))
"""


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


def test_a_second_signal_gives_back_what_runs_and_stops_at_once(place: Place) -> None:
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


def test_a_third_signal_waits_for_nothing(sqlite_place: Place) -> None:
    worker = sqlite_place.work(target=PATIENT)  # by itself it would end only after that long
    sqlite_place.submit(hold_loop.call("h"))
    sqlite_place.began("h")
    for heard in ("stopping", "stopping_now"):
        worker.signal(signal.SIGTERM)
        worker.heard(heard)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 128 + signal.SIGTERM


@ALONE_AND_CREW
def test_signals_end_a_worker_that_stands_still_because_nobody_reads_what_it_writes(
    sqlite_place: Place, flags: list[str]
) -> None:
    place = sqlite_place
    reading, writing = os.pipe()
    worker = subprocess.Popen(
        [*COMMAND, "work", APP, *flags],
        cwd=ROOT, env=place.environment, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing,
    )  # fmt: skip
    try:
        until(lambda: len(place.views()) == (2 if flags else 1))
        said = b""
        while b"Ctrl-C" not in said:
            said += os.read(reading, 65_536)
        filling = os.open(f"/proc/self/fd/{writing}", os.O_WRONLY | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while True:
                os.write(filling, b"x")
        os.close(filling)
        place.submit(fail.call("nobody"))
        until(lambda: not place.left())
        for _ in range(3):
            with suppress(subprocess.TimeoutExpired):
                worker.send_signal(signal.SIGTERM)
                worker.wait(1.0)  # the same again within half a second is the same one
        assert worker.wait(SECONDS_MAX) == 128 + signal.SIGTERM
    finally:
        worker.kill()
        worker.wait()
        os.close(reading)
        os.close(writing)


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
def test_a_timeout_for_every_new_socket_keeps_neither_signals_nor_jobs_from_a_worker(
    sqlite_place: Place, flags: list[str]
) -> None:
    worker = sqlite_place.work(*flags, target="tests.processes.default_timeout:app")
    time.sleep(5 * default_timeout.SECONDS)
    for name in ("first", "second"):  # in the same process, a while later
        sqlite_place.submit(default_timeout.apart.call(name))
        until(lambda: sqlite_place.effects("ended", name))  # noqa: B023
    sqlite_place.until_done()
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert not worker.events("member_died")


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


@pytest.mark.parametrize("hangup", ["signal.SIG_IGN", "lambda *_: None"])
def test_sighup_is_not_heard_where_it_is_ignored_or_the_apps_own(hangup: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", HANGUP, hangup], cwd=ROOT, env=INHERITED, capture_output=True,
        check=True, timeout=SECONDS_MAX,
    )  # fmt: skip
    assert ran.stdout.decode().split() == ["SIGTERM"]


@pytest.mark.parametrize(
    "job", [rude.terminate_on_thread, rude.terminate_on_loop], ids=lambda job: job.kind
)
def test_a_handler_that_terminates_its_child_does_not_stop_its_worker(
    sqlite_place: Place, job: Job[[], None]
) -> None:
    worker = sqlite_place.work(target=RUDE)
    sqlite_place.submit(job.call())
    [ended] = until(lambda: sqlite_place.effects("ended", "child"))
    assert ended.number == -signal.SIGTERM
    sqlite_place.until_done()
    assert not worker.events("stopping")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_worker_hears_its_signals_whatever_else_its_loop_is_to_hear(sqlite_place: Place) -> None:
    worker = sqlite_place.work("--concurrency", "2", target=RUDE)
    sqlite_place.submit(rude.hear_other_signals.call(), rude.hold.call("h"))
    sqlite_place.began("hear")
    sqlite_place.began("h")
    worker.signal(signal.SIGTERM)
    worker.heard("stopping")
    worker.signal(signal.SIGUSR1)
    until(lambda: sqlite_place.effects("heard", "usr1"))
    worker.signal(signal.SIGTERM)
    worker.heard("stopping_now")
    assert worker.ended() == 128 + signal.SIGTERM
