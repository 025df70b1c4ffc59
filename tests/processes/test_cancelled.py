"""A handler that cancels its worker's own tasks ends it, and no more than that."""

from __future__ import annotations

import signal

from tests.processes import rude
from tests.processes.support import Place, until

RUDE = "tests.processes.rude:app"


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


def test_a_crew_starts_a_process_again_that_a_handler_has_cancelled(place: Place) -> None:
    crew = place.work("--processes", "2", "--lease", "10m", target=RUDE)
    place.submit(rude.cancel_all.call("all"))
    assert crew.heard("member_died")["how"] == "ended with exit code 1"
    until(lambda: place.effects("ended", "all"))
    place.until_done()
    crew.signal(signal.SIGTERM)
    assert crew.ended() == 0
