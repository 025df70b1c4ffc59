"""Signals that handlers send, and signals that they want to hear: the worker's own are not lost."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from inturn.queue.job import Job
from tests.cli.support import INHERITED
from tests.processes import rude
from tests.processes.support import ROOT, Place, until

RUDE = "tests.processes.rude:app"

FORK = """
import os, signal, threading

# Registered first, so it is called before anything else in the child.
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))

from inturn.worker.signals import SignalThread

heard, last = [], threading.Event()

def hear(number):
    heard.append(number.name)
    if number == signal.SIGINT:
        last.set()

with SignalThread(hear):
    child = os.fork()
    if not child:
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    os.kill(os.getpid(), signal.SIGINT)
    last.wait()
print(os.waitstatus_to_exitcode(status), *heard)
"""


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


def test_a_signal_to_a_child_that_has_not_run_yet_is_not_heard_by_its_parent() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORK], cwd=ROOT, env=INHERITED, capture_output=True, check=True
    )
    assert ran.stdout.decode().split() == [str(-signal.SIGTERM), "SIGINT"]


@pytest.mark.parametrize(
    "job", [rude.hear_other_signals, rude.hear_no_signals], ids=lambda job: job.kind
)
def test_a_worker_hears_its_signals_whatever_else_its_loop_is_to_hear(
    sqlite_place: Place, job: Job[[], None]
) -> None:
    worker = sqlite_place.work("--concurrency", "2", target=RUDE)
    sqlite_place.submit(job.call(), rude.hold.call("h"))
    sqlite_place.began("hear")
    sqlite_place.began("h")
    worker.signal(signal.SIGTERM)
    worker.heard("stopping")
    if job is rude.hear_other_signals:
        worker.signal(signal.SIGUSR1)
        until(lambda: sqlite_place.effects("heard", "usr1"))
    worker.signal(signal.SIGTERM)
    worker.heard("stopping_now")
    assert worker.ended() == 128 + signal.SIGTERM
