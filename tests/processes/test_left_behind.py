"""What handlers leave in their worker's process does not keep it from ending."""

from __future__ import annotations

import signal

import pytest

from inturn.queue.job import Job
from tests.processes import rude
from tests.processes.support import Place, WorkerProcess, until

RUDE = "tests.processes.rude:app"
LEAVING = [rude.leave_thread, rude.leave_task, rude.leave_process]


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


def test_a_process_of_several_ends_although_a_handler_left_something(sqlite_place: Place) -> None:
    crew = _worker_with_left(sqlite_place, rude.leave_thread, "--processes", "2")
    assert crew.ended() == 0
    [left] = crew.events("left_behind")
    assert left["worker"] in (f"{crew.name}-1", f"{crew.name}-2")
    assert not sqlite_place.views()


def _worker_with_left(place: Place, job: Job[[str], None], *arguments: str) -> WorkerProcess:
    """Return a worker that has run a job that left something, and was told to stop."""
    worker = place.work(*arguments, target=RUDE)
    place.submit(job.call("something"))
    until(lambda: not place.left())
    worker.signal(signal.SIGTERM)
    return worker
