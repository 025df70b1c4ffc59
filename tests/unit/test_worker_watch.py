"""The watch keeps nobody waiting, whatever becomes of what it writes to the log."""

from __future__ import annotations

import threading
import time

import pytest

from inturn.worker import watch
from inturn.worker.watch import Watch

SECONDS_MAX = 60.0


async def test_handlers_are_called_while_the_watch_waits_for_a_log_that_nobody_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes, reads, called = threading.Event(), threading.Event(), threading.Event()

    def log(*_: object) -> None:
        writes.set()
        reads.wait()

    monkeypatch.setattr(watch, "log_loop_blocked", log)
    monkeypatch.setattr(watch, "JOIN_SECONDS_MAX", 0.01)
    one = Watch({}, loop_seconds_max=0.05)
    try:
        with one.watching():
            while not writes.is_set():
                time.sleep(0.01)  # noqa: ASYNC251
            handler = threading.Thread(
                target=one.call, args=["kind", SECONDS_MAX, called.set], daemon=True
            )
            handler.start()
            try:
                assert called.wait(SECONDS_MAX)
            finally:
                if not called.is_set():
                    reads.set()
        assert not reads.is_set(), "its end was not waited for"
    finally:
        reads.set()
