"""Processor time of worker processes and of the server: what others do on the machine is not in it.

On a machine that others use as well, a side with more threads that want to run gets more of it, so
jobs a second are no fair measure there. Processor time by job still is one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psycopg

TICKS = os.sysconf("SC_CLK_TCK")


def used_seconds(pid: int) -> float:
    """Return what a process has used, with its children that have ended."""
    return sum(map(int, _fields(pid)[11:15])) / TICKS


def used_by_session(leader: int) -> float:
    """Return what the processes of a session have used, with those that have ended."""
    used = 0.0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            pid = int(path.name)
            if int(_fields(pid)[3]) == leader:
                used += used_seconds(pid)
    return used


def used_by_server(url: str) -> float | None:
    """Return what a PostgreSQL on this machine has used; None if it is on another."""
    with psycopg.connect(url, autocommit=True) as connection:
        pid = connection.info.backend_pid
        if not _is_postgres(pid):
            return None
        postmaster = int(_fields(pid)[1])
        living = _used_by_children(postmaster)
        return living + used_seconds(postmaster)  # last: what a child has used that just ended


def _used_by_children(parent: int) -> float:
    used = 0.0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            pid = int(path.name)
            if int(_fields(pid)[1]) == parent:
                used += used_seconds(pid)
    return used


def _is_postgres(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("postgres")
    except OSError:
        return False


def _fields(pid: int) -> list[str]:
    """Return what the system says of a process, from its state on: the third field and the rest."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
