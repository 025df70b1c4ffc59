"""Workers whose child processes take long to start: what the job waits for may be over by then."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from inturn.model.job import JobState
from tests.processes.slow_to_start import hold_child
from tests.processes.support import Place, WorkerProcess, is_gone, until

SLOW_TO_START = "tests.processes.slow_to_start:app"
BRIEF = ("--lease", "3s", "--sweep", "500ms")
LASTING = ("--lease", "60s", "--sweep", "500ms")


def starting_child(place: Place, *settings: str) -> tuple[WorkerProcess, Path]:
    """Return a worker that has a job and waits for a child to run it, and the file that holds it
    up.
    """
    worker = place.work(*settings, target=SLOW_TO_START)
    place.submit(hold_child.call("first"))
    place.let_end("first")
    place.until_done()
    idle = place.began("first").pid
    os.kill(idle, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{idle}").exists())  # the worker has noticed
    late = place.folder / "late"
    late.write_text(str(worker.pid))
    place.submit(hold_child.using(key="k").call("h"))
    until(lambda: place.effects("importing"))
    return worker, late


def test_a_job_whose_lease_ran_out_while_its_child_started_does_not_begin(place: Place) -> None:
    """Somebody else runs it by then, or the job behind it in its lane."""
    first, late = starting_child(place, *BRIEF)
    place.stop(first.pid)
    late.unlink()
    second = place.work(*LASTING, target=SLOW_TO_START)
    began = place.began("h")
    assert not is_gone(began.pid)
    with place.locked():  # no heartbeat is answered, and so nobody tells it
        first.signal(signal.SIGCONT)
        time.sleep(0.5)  # time enough to begin
    first.heard("leases_lost")
    first.signal(signal.SIGTERM)
    assert first.ended() == 0
    place.let_end("h")
    place.until_done()
    assert place.effects("began", "h") == [began]
    second.signal(signal.SIGTERM)
    assert second.ended() == 0
    assert (
        first.heard("stopped")["counts"]["done"],
        second.heard("stopped")["counts"]["done"],
    ) == (1, 1)


def test_a_job_whose_child_had_not_started_when_its_worker_was_told_to_stop_is_given_back(
    place: Place,
) -> None:
    """It has not started, and its attempt does not count. (001-21)"""
    worker, late = starting_child(place, *LASTING)
    worker.signal(signal.SIGTERM)
    worker.heard("stopping")
    late.unlink()
    assert worker.ended() == 0
    assert place.effects("began", "h") == []
    [view] = [one for one in place.store(lambda store: store.jobs()).rows if one.job.key == "k"]
    assert (view.state, view.attempt, view.errors) == (JobState.WAITING, 0, ())
