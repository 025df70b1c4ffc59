"""What handlers leave in their worker's process does not keep it from ending."""

from __future__ import annotations

import signal

import pytest

from inturn.queue.job import Job
from tests.processes import rude
from tests.processes.support import Place, WorkerProcess, until

RUDE = "tests.processes.rude:app"
LEAVING = [rude.leave_thread, rude.leave_task, rude.leave_pool_on_thread, rude.leave_process]


@pytest.mark.parametrize("job", LEAVING, ids=lambda job: job.kind)
def test_a_worker_ends_although_a_handler_left_something(
    sqlite_place: Place, job: Job[[str], None]
) -> None:
    worker = _worker_with_left(sqlite_place, job)
    assert worker.ended() == 0
    kinds = [event["event"] for event in worker.events()]
    assert kinds == ["started", "stopping", "stopped", "left_behind"]
    [name] = worker.heard("left_behind")["names"]
    assert "something" in name
    assert sqlite_place.effects("stopped", "hook")
    assert not sqlite_place.effects("ended", "something")
    assert not sqlite_place.views()


@pytest.mark.parametrize(
    "job", [rude.leave_daemon, rude.leave_docile_task], ids=lambda job: job.kind
)
def test_what_does_not_keep_a_process_from_ending_is_cut_off_without_a_word(
    sqlite_place: Place, job: Job[[str], None]
) -> None:
    worker = _worker_with_left(sqlite_place, job)
    assert worker.ended() == 0
    assert [event["event"] for event in worker.events()] == ["started", "stopping", "stopped"]
    assert sqlite_place.effects("left", "process"), "what atexit has registered was called"
    assert not sqlite_place.effects("ended", "something")


def test_a_process_of_several_ends_although_a_handler_left_something(sqlite_place: Place) -> None:
    crew = _worker_with_left(sqlite_place, rude.leave_thread, "--processes", "2")
    assert crew.ended() == 0
    [left] = crew.events("left_behind")
    assert left["worker"] in (f"{crew.name}-1", f"{crew.name}-2")
    assert not sqlite_place.views()


def test_a_worker_that_fails_says_so_and_ends_although_a_handler_left_something(
    sqlite_place: Place,
) -> None:
    sqlite_place.submit(rude.spoil_the_end.call())
    worker = _worker_with_left(sqlite_place, rude.leave_thread)
    assert worker.ended() == 1
    assert "a worker stops, failed: ValueError: spoilt" in worker.errors
    assert worker.events("left_behind")


def test_a_task_of_a_handler_that_exits_is_a_failed_attempt_and_the_worker_goes_on(
    sqlite_place: Place,
) -> None:
    place = sqlite_place
    worker = place.work(target=RUDE)
    place.submit(rude.hold.call("neighbour"))
    place.began("neighbour")
    place.submit(rude.exit_in_task.call(3))
    died = worker.heard("died")
    assert (died["kind"], "SystemExit" in died["reason"]) == ("exit_in_task", True)
    place.let_end("neighbour")
    until(lambda: not place.left())
    assert len(place.effects("began", "neighbour")) == 1
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_worker_that_a_handler_cancels_gives_back_what_it_holds_and_says_so(
    place: Place,
) -> None:
    worker = place.work("--lease", "10m", target=RUDE)
    place.submit(rude.hold_thread.call("h"))
    place.began("h")
    place.submit(rude.cancel_all.call("all"))
    assert worker.ended() == 1
    [line] = [line for line in worker.errors.splitlines() if line.startswith("inturn: ")]
    assert "a handler cancelled the worker's own tasks" in line
    assert "Traceback" not in worker.errors
    assert not place.running()
    assert not place.views()
    place.let_end("h")
    other = place.work("--lease", "10m", target=RUDE)
    place.until_done()
    assert {one.pid for one in place.effects("ended")} == {other.pid}


def _worker_with_left(place: Place, job: Job[[str], None], *arguments: str) -> WorkerProcess:
    """Return a worker that has run a job that left something, and was told to stop."""
    worker = place.work(*arguments, target=RUDE)
    place.submit(job.call("something"))
    until(lambda: not place.left())
    worker.signal(signal.SIGTERM)
    return worker
