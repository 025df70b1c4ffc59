"""Ids: version 7, and each larger than the one before, whatever the clock does."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from uuid import UUID

import pytest

from inturn.model.ids import Ids, is_version_7, new_id
from inturn.model.job import NewJob

VERSION_7_LARGEST = UUID(int=(2**48 - 2) << 80 | 7 << 76 | 0xFFF << 64 | 2 << 62 | (2**62 - 1))


def test_003_01_ids_are_version_7_of_rfc_9562() -> None:
    for _ in range(1_000):
        made = new_id()
        assert is_version_7(made)
        assert made.version == 7
        assert made.variant == uuid.RFC_4122
        assert UUID(str(made)) == made
        assert len(str(made)) == 36


def test_003_01_an_id_begins_with_the_time() -> None:
    before = time.time_ns() // 1_000_000
    millis = Ids().next().int >> 80
    assert before <= millis <= time.time_ns() // 1_000_000


def test_003_01_the_example_of_the_rfc_is_version_7_and_others_are_not() -> None:
    assert is_version_7(UUID("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"))
    assert not is_version_7(uuid.uuid4())
    assert not is_version_7(UUID(int=0))
    assert not is_version_7(UUID("017F22E2-79B0-7CC3-18C4-DC0C0C07398F"))  # another variant


def test_003_02_ids_go_up_strictly_within_a_process() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(set(made))
    assert [str(one) for one in made] == sorted(str(one) for one in made)


def test_003_02_ids_go_up_also_when_the_clock_steps_back() -> None:
    base = new_id().int
    steps = iter([base, base - (3_600_000 << 80), base, base - 1, base + (1 << 80), base])
    ids = Ids(lambda: next(steps))
    made = [ids.next() for _ in range(6)]
    assert made == sorted(set(made))
    assert all(is_version_7(one) for one in made)


@pytest.mark.parametrize(
    "start",
    [
        UUID(int=1 << 80 | 7 << 76 | 0x123 << 64 | 2 << 62 | (2**62 - 1)),
        UUID(int=1 << 80 | 7 << 76 | 0xFFF << 64 | 2 << 62 | (2**62 - 1)),
        VERSION_7_LARGEST,
    ],
    ids=["low-bits-full", "middle-bits-full", "last-but-one-instant"],
)
def test_003_02_the_successor_carries_over_the_version_bits(start: UUID) -> None:
    ids = Ids(lambda: start.int)
    first, second, third = ids.next(), ids.next(), ids.next()
    assert start == first < second < third
    assert is_version_7(second)
    assert is_version_7(third)


def test_003_02_ids_of_many_threads_are_all_different_and_each_thread_sees_them_go_up() -> None:
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


def test_a_job_has_an_id_before_it_is_accepted() -> None:
    one, two = NewJob(kind="k"), NewJob(kind="k")
    assert is_version_7(one.id)
    assert one.id < two.id


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


def test_003_02_a_forked_child_makes_other_ids_and_waits_for_no_lock_of_its_parents() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert len(set(ran.stdout.split())) == 2
