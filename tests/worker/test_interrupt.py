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
from inturn.worker.interrupt import Deadline, TimeIsUp

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

gate = threading.Lock()
gate.acquire()

def stay_in_c():
    begun.set()
    gate.acquire()
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

MEANWHILE = """
thread = threading.Thread(target=handle, args=[stay_in_c])
thread.start()
begun.wait()
deadlines[0].strike()
assert deadlines[0].is_struck
answer()
assert not is_over.is_set()
gate.release()
is_over.wait()
thread.join()
answer()
"""

TRACED_STRIKER = """
threading.settrace(traced)
thread = threading.Thread(target=handle, args=[stay_in_c])
thread.start()
begun.wait()
striker = threading.Thread(target=lambda: deadlines[0].strike() or ask())
striker.start()
striker.join()
gate.release()
thread.join()
print(ask())
"""


SWALLOWED = """
from inturn.worker import interrupt

set_exception, swallowed = interrupt._set_exception, []

def set_or_swallow(thread, raised):
    if raised is interrupt._Nothing and not swallowed:
        swallowed.append(raised)
        return 1
    return set_exception(thread, raised)

interrupt._set_exception = set_or_swallow
thread = threading.Thread(target=handle, args=[stay_in_c])
thread.start()
begun.wait()
deadlines[0].strike()
gate.release()
thread.join()
print(len(swallowed), ask())
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


def test_while_a_struck_handler_is_in_a_c_call_a_traced_function_begins() -> None:
    assert said_by(MEANWHILE) == ["answered", "answered"]


def test_who_strikes_may_be_traced() -> None:
    assert said_by(TRACED_STRIKER) == ["answered"]


def test_who_strikes_goes_on_though_a_finalizer_has_swallowed_what_was_for_it() -> None:
    """Where Python collects garbage before it raises, as from 3.12 on."""
    assert said_by(SWALLOWED) == ["1", "answered"]
