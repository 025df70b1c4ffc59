"""Many worker processes, one store: every job once, each key in order, whoever is killed."""

from __future__ import annotations

import signal
import time

import pytest

from inturn.model.lane import QueueSettings, Replay
from tests.processes.jobs import count, count_on_thread, hold
from tests.processes.support import Place, is_in_turn, until

KEYS = [f"key-{n}" for n in range(7)]


@pytest.mark.parametrize("workers", [5, 10])
def test_many_workers_have_exactly_one_effect_for_each_job(place: Place, workers: int) -> None:
    """Five as programs of their own, ten as the processes of one. (001-01)"""
    if workers == 5:
        started = [place.start("--concurrency", "4") for _ in range(workers)]
    else:
        started = [place.start("--concurrency", "4", "--processes", str(workers))]
    until(lambda: len(place.views()) == workers)
    place.submit(*(hold.call("h") for _ in range(5)))  # more than one worker has slots for
    place.began("h", times=5)
    place.let_end("h")
    calls = [
        (count if n % 3 else count_on_thread).using(key=KEYS[n % 7] if n % 2 else None)
        for n in range(1_000)
    ]
    place.submit(
        *(one.call(KEYS[n % 7] if n % 2 else "open", n, 0.005) for n, one in enumerate(calls))
    )
    place.until_done()
    effects = place.effects("count")
    assert sorted(one.number for one in effects) == list(range(1_000))
    assert all(is_in_turn(place.effects(name=key), step=14) for key in KEYS)
    assert len({one.pid for one in place.effects("began")}) > 1
    for worker in started:
        worker.signal(signal.SIGTERM)
    assert [worker.ended() for worker in started] == [0] * len(started)
    done = [worker.heard("stopped")["counts"] for worker in started]
    assert sum(counts["done"] for counts in done) == 1_005
    assert sum(counts["lost"] + counts["failed"] + counts["dead"] for counts in done) == 0


def test_each_key_keeps_its_order_while_workers_are_killed(place: Place) -> None:
    """(003-11)"""
    settings = ("--concurrency", "3", "--lease", "2s", "--sweep", "300ms")
    workers = [place.work(*settings) for _ in range(2)]
    keys, jobs = KEYS[:4], 20
    place.submit(
        *(count.using(key=key).call(key, n, 0.1) for n in range(jobs) for key in keys),
        *(count.call("open", n, 0.02) for n in range(jobs)),
    )
    for _ in range(2):
        victim = place.who_ran(workers)
        victim.kill()
        workers.remove(victim)
        workers.append(place.work(*settings))
    place.until_done()
    for key in keys:
        assert is_in_turn(place.effects(name=key))
        assert {one.number for one in place.effects(name=key)} == set(range(jobs))
    assert {one.number for one in place.effects(name="open")} == set(range(jobs))


def goes_back_when_killed(place: Place, replay: Replay) -> bool:
    """Kill workers that cannot commit; say whether a job ran again after its successor began."""
    place.store(lambda store: store.configure("default", QueueSettings(replay=replay)))
    options = ("--concurrency", "3", "--lease", "1s", "--sweep", "200ms")
    keys, each = KEYS[:4], 40
    workers = {one.pid: one for one in (place.work(*options) for _ in range(2))}
    for first in range(0, 3 * each, each):
        before = len(place.effects())
        numbers = range(first, first + each)
        place.submit(*(count.using(key=key).call(key, n, 0.02) for n in numbers for key in keys))
        until(lambda before=before: len(place.effects()) > before + 10)  # type: ignore[misc]
        with place.locked():
            time.sleep(0.3)  # what was claimed runs, and none of it is committed
            workers.pop(place.effects()[-1].pid).kill()
        replacement = place.work(*options)
        workers[replacement.pid] = replacement
    place.until_done()
    ran = [[one.number for one in place.effects(name=key)] for key in keys]
    assert all(set(numbers) == set(range(3 * each)) for numbers in ran)
    return any(numbers != sorted(numbers) for numbers in ran)


def test_without_replay_no_job_runs_again_once_its_successor_has_begun(place: Place) -> None:
    """(B-06)"""
    assert not goes_back_when_killed(place, Replay.NONE)


def test_with_replay_the_end_of_a_lane_runs_again(place: Place) -> None:
    """What the test above would see."""
    assert goes_back_when_killed(place, Replay.TAIL)


def test_a_batch_that_waits_its_turn_keeps_its_lease(place: Place) -> None:
    """A lane's jobs are leased together, and prolonged while they wait. (003-10)"""
    settings = ("--concurrency", "1", "--lease", "60s", "--sweep", "300ms")
    first, second = place.work(*settings), place.work(*settings)
    lane = [hold.using(key="k").call("h"), *(count.using(key="k").call("k", n) for n in range(6))]
    place.submit(*lane)
    place.began("h")
    for _ in range(3):
        place.until_prolonged()
    place.let_end("h")
    place.until_done()
    assert [one.number for one in place.effects("count")] == list(range(6))
    assert len(place.effects("began")) == 1
    assert not first.events("leases_lost") + second.events("leases_lost")


def test_a_worker_stops_by_itself_when_nothing_is_left(place: Place) -> None:
    place.submit(*(count.call("open", n) for n in range(50)), hold.call("h"))
    place.let_end("h")
    worker = place.start("--drain")
    assert worker.ended() == 0
    assert worker.heard("stopped")["counts"]["done"] == 51
    assert place.left() == 0
