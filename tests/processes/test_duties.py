"""Background duties of worker processes that are stopped and killed."""

from __future__ import annotations

from itertools import pairwise

from tests.processes.support import Place, until

DUTIFUL = "tests.processes.dutiful:app"


def test_a_duty_goes_to_another_worker_when_its_holder_is_stopped_or_killed(place: Place) -> None:
    """And never to two at once: a call ends before another worker's begins."""
    workers = [place.work("--lease", "2s", target=DUTIFUL) for _ in range(3)]
    pids = {worker.pid: worker for worker in workers}

    def holder() -> int:
        return until(lambda: [one.pid for one in place.views() if "sweep" in one.duties])[0]

    first = holder()
    until(lambda: len(place.effects("sweep-ended", "sweep")) > 2)
    place.stop(first)  # SIGSTOP, past its lease
    second = until(lambda: [one for one in [holder()] if one != first])[0]
    pids[second].kill()
    third = until(lambda: [one for one in [holder()] if one not in (first, second)])[0]
    until(lambda: place.effects("sweep-ended", "sweep")[-1].pid == third)
    calls = place.effects()
    for one, other in pairwise(calls):
        if one.verb == "sweep-began" and one.pid != other.pid:
            assert one.pid in (first, second), "it was stopped or killed within its call"
