"""``sys.exit`` and Ctrl-C in what a handler started on the loop end that, and not the worker."""

from __future__ import annotations

import signal

import pytest

from tests.processes import rude
from tests.processes.support import Place, until

RUDE = "tests.processes.rude:app"


@pytest.mark.parametrize("code", [None, 0, 3])
def test_a_task_of_a_handler_that_exits_is_a_failed_attempt_and_the_worker_goes_on(
    place: Place, code: int | None
) -> None:
    worker = place.work(target=RUDE)
    place.submit(rude.hold.call("neighbour"))
    place.began("neighbour")
    place.submit(rude.exit_in_task.call(code))
    died = worker.heard("died")
    assert (died["kind"], "SystemExit" in died["reason"]) == ("exit_in_task", True)
    place.submit(rude.hear_other_signals.call())
    place.began("hear")
    place.let_end("neighbour")
    until(lambda: not place.left())
    assert len(place.effects("began", "neighbour")) == 1
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert (
        worker.heard("stopped")["counts"] | {"done": 2, "dead": 1, "failed": 0}
        == (worker.heard("stopped")["counts"])
    )
    assert "cancelled the worker's own tasks" not in worker.errors


def test_a_callback_that_raises_keyboard_interrupt_harms_nobody(place: Place) -> None:
    worker = place.work(target=RUDE)
    place.submit(rude.hold.call("neighbour"))
    place.began("neighbour")
    place.submit(rude.interrupt_in_callback.call())
    until(lambda: place.left() == 1)
    place.let_end("neighbour")
    place.until_done()
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert worker.heard("stopped")["counts"]["done"] == 2


def test_a_drain_does_not_end_before_all_is_done_because_a_task_has_exited(place: Place) -> None:
    place.submit(rude.exit_in_task.call(None), rude.interrupt_in_callback.call())
    worker = place.start("--drain", target=RUDE)
    assert worker.ended() == 0
    counts = worker.heard("stopped")["counts"]
    assert (counts["done"], counts["dead"], place.left()) == (1, 1, 0)


def test_a_task_that_exits_when_it_is_cancelled_at_the_end_changes_nothing(
    sqlite_place: Place,
) -> None:
    worker = sqlite_place.work(target=RUDE)
    sqlite_place.submit(rude.leave_task_that_exits.call("something"))
    sqlite_place.until_done()
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert sqlite_place.effects("left", "something")
