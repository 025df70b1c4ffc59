"""What handlers leave in their worker's process does not keep it from ending."""

from __future__ import annotations

import signal

import pytest

from inturn.queue.job import Job
from tests.processes import rude
from tests.processes.support import Place, WorkerProcess, until

RUDE = "tests.processes.rude:app"
PATIENT = "tests.processes.rude_and_patient:app"

LEAVING = [
    rude.leave_thread,
    rude.leave_task,
    rude.leave_blocking_task,
    rude.leave_pool,
    rude.leave_pool_on_thread,
    rude.leave_process,
]


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


def test_a_crew_ends_although_a_handler_left_something(sqlite_place: Place) -> None:
    crew = _worker_with_left(sqlite_place, rude.leave_thread, "--processes", "2")
    assert crew.ended() == 0
    [left] = crew.events("left_behind")
    assert left["worker"] in (f"{crew.name}-1", f"{crew.name}-2")
    assert not sqlite_place.views()


@pytest.mark.parametrize("job", [rude.leave_thread, rude.leave_task], ids=lambda job: job.kind)
def test_a_worker_that_fails_says_so_and_ends_although_a_handler_left_something(
    sqlite_place: Place, job: Job[[str], None]
) -> None:
    sqlite_place.submit(rude.spoil_the_end.call())
    worker = _worker_with_left(sqlite_place, job)
    assert worker.ended() == 1
    assert "a worker stops, failed: ValueError: spoilt" in worker.errors
    assert worker.events("left_behind")


def test_what_a_handler_left_may_end_by_itself(sqlite_place: Place) -> None:
    worker = _worker_with_left(sqlite_place, rude.leave_thread, target=PATIENT)
    worker.heard("stopped")
    sqlite_place.let_end("something")
    assert worker.ended() == 0
    assert sqlite_place.effects("ended", "something")
    assert sqlite_place.effects("left", "process")
    assert not worker.events("left_behind")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_whose_output_a_handler_closed_goes_on_and_ends_well(
    sqlite_place: Place, processes: str
) -> None:
    worker = sqlite_place.work("--processes", processes, target=RUDE)
    sqlite_place.submit(rude.close_output.call())
    until(lambda: sqlite_place.effects("closed", "output"))
    sqlite_place.submit(rude.leave_docile_task.call("something"))
    sqlite_place.until_done()
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert "lost sys.stderr" not in worker.errors


def _worker_with_left(
    place: Place, job: Job[[str], None], *arguments: str, target: str = RUDE
) -> WorkerProcess:
    """Return a worker that has run a job that left something, and was told to stop."""
    worker = place.work(*arguments, target=target)
    place.submit(job.call("something"))
    until(lambda: not place.left())
    worker.signal(signal.SIGTERM)
    return worker
