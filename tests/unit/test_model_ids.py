"""Ids: version 7, and each larger than the one before, whatever the clock does."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from uuid import UUID

from inturn.model.ids import Ids, new_id


def test_ids_are_version_7_of_rfc_9562() -> None:
    """(003-01)"""
    for _ in range(1_000):
        made = new_id()
        assert made.version == 7
        assert made.variant == uuid.RFC_4122
        assert UUID(str(made)) == made
        assert len(str(made)) == 36


def test_ids_go_up_strictly_within_a_process() -> None:
    """(003-02)"""
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(set(made))
    assert [str(one) for one in made] == sorted(str(one) for one in made)


def test_ids_go_up_also_when_the_clock_steps_back() -> None:
    """(003-02)"""
    base = new_id().int
    steps = iter([base, base - (3_600_000 << 80), base, base - 1, base + (1 << 80), base])
    ids = Ids(lambda: next(steps))
    made = [ids.next() for _ in range(6)]
    assert made == sorted(set(made))
    assert all(one.version == 7 for one in made)


def test_ids_of_many_threads_are_all_different_and_each_thread_sees_them_go_up() -> None:
    """(003-02)"""
    source = Ids()
    seen: list[list[UUID]] = [[] for _ in range(8)]

    def take(mine: list[UUID]) -> None:
        mine.extend(source.next() for _ in range(2_000))

    threads = [threading.Thread(target=take, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in seen)
    assert len({one for mine in seen for one in mine}) == 16_000


FORKED = """
import os
import signal
from inturn.model import ids

ids._process_ids._last = (2**48 - 9) << 80 | 7 << 76 | 2 << 62  # as if the clock had stepped back
lock = ids._process_ids._lock
lock.acquire()  # as another thread might, at this moment
child = os.fork()
if child:
    lock.release()
signal.alarm(60)  # ends a child that would wait for ever
os.write(1, f"{ids.new_id()}\\n".encode())  # whole, whoever else writes
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_makes_other_ids_and_waits_for_no_lock_of_its_parents() -> None:
    """(003-02)"""
    ran = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert len(set(ran.stdout.split())) == 2
