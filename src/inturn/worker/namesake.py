"""A worker's namesake: another that has its name, and most likely is alive."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from datetime import datetime

from inturn.model.worker import WorkerView
from inturn.worker.heartbeat import BEAT_SECONDS_MAX

SEEN_SECONDS_MAX = 3 * BEAT_SECONDS_MAX


def namesake(name: str, views: Iterable[WorkerView], now: datetime) -> str | None:
    """Say where another worker of this name was seen lately, if one was that may be alive.

    On another host nobody here can know: one that was killed a moment ago looks the same.
    """
    for view in views:
        if view.id != name or view.seen_at is None:
            continue
        seconds = (now - view.seen_at).total_seconds()
        if seconds <= SEEN_SECONDS_MAX and _may_live(view):
            return f"process {view.pid} on {view.host}, seen {max(0.0, seconds):.0f} s ago"
    return None


def _may_live(view: WorkerView) -> bool:
    if view.host != socket.gethostname():
        return True
    if view.pid == os.getpid():  # as in a container that was started again
        return False
    try:
        os.kill(view.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is someone else's
        pass
    return True
