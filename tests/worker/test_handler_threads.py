"""What striking a handler leaves behind in its process: nothing, for who traces its code least of
all. On Python 3.11 a traced function did not begin while the interpreter thought that some thread
had an exception to raise."""

from __future__ import annotations

import subprocess
import sys

import pytest

SECONDS_MAX = 60

STRUCK = """
import sys, threading, time
from inturn.worker.handler_threads import Deadline, TimeIsUp

begun, is_over = threading.Event(), threading.Event()
deadlines = []

def handle(work):
    deadlines.append(Deadline("kind", 0.0))
    try:
        deadlines[0].call(work)
    except TimeIsUp:
        pass
    is_over.set()

def traced(frame, event, argument):
    return traced

def ask():
    return "answered"

def answer():
    sys.settrace(traced)
    try:
        print(ask())
    finally:
        sys.settrace(None)

def run_python():
    begun.set()
    while True:
        pass

def swallow():
    try:
        run_python()
    except TimeIsUp:
        pass

def strike_last():
    begun.set()
    deadlines[0].strike()
"""

AFTERWARDS = """
thread = threading.Thread(target=handle, args=[{work}])
thread.start()
begun.wait()
deadlines[0].strike()
is_over.wait()
thread.join()
answer()
"""


def said_by(program: str) -> list[str]:
    """Run a program in a process of its own: what is wrong there may be past mending."""
    ended = subprocess.run(
        [sys.executable, "-c", STRUCK + program],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.stderr == ""
    assert ended.returncode == 0
    return ended.stdout.split()


@pytest.mark.parametrize("work", ["run_python", "swallow", "strike_last"])
def test_after_a_handler_was_struck_a_traced_function_begins(work: str) -> None:
    assert said_by(AFTERWARDS.format(work=work)) == ["answered"]
