"""The process beside a worker that kills what is left of its children when the worker is gone.

A file to run by itself, with the standard library alone: nothing of an app's can hold it up.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

LOOK_SECONDS = 1.0  # between two looks at who its parent is
GRACE_SECONDS = 1.0  # for children that end by themselves, when the worker is gone


def main(worker: int) -> None:
    """Learn from standard input which process groups there are; kill them when nobody is there."""
    # All of a unit's or a terminal's processes may be told to stop, and the worker decides.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    groups = _until_gone(worker)
    if groups:
        time.sleep(GRACE_SECONDS)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _until_gone(worker: int) -> set[int]:
    """Wait for the worker's end; return the groups that it named and has not taken back."""
    groups: set[int] = set()
    rest = b""
    while True:
        if select.select([0], [], [], LOOK_SECONDS)[0]:
            if not (heard := os.read(0, 65536)):
                return groups
            *lines, rest = (rest + heard).split(b"\n")
            for number in map(int, lines):
                groups.add(number) if number > 0 else groups.discard(-number)
        elif os.getppid() != worker:  # a process that the worker forked keeps the input open
            return groups


if __name__ == "__main__":
    main(int(sys.argv[1]))
