"""Processor time of worker processes and of the server: what others do on the machine is not in it.

On a machine that others use as well, a side with more threads that want to run gets more of it, so
jobs a second are no fair measure there. Processor time by job still is one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import psycopg

TICKS = os.sysconf("SC_CLK_TCK")


def used_seconds(pid: int) -> float:
    """Return what a process has used, with its children that have ended."""
    return sum(map(int, _fields(pid)[11:15])) / TICKS


def used_by_server(url: str) -> float | None:
    """Return what a PostgreSQL on this machine has used; None if it is on another."""
    with psycopg.connect(url, autocommit=True) as connection:
        pid = connection.info.backend_pid
        if not _is_postgres(pid):
            return None
        postmaster = int(_fields(pid)[1])
        return sum(map(used_seconds, [postmaster, *_children(postmaster)]))


def _children(parent: int) -> Iterable[int]:
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int(_fields(int(path.name))[1]) == parent:
                yield int(path.name)
        except OSError:  # it has ended
            continue


def _is_postgres(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("postgres")
    except OSError:
        return False


def _fields(pid: int) -> list[str]:
    """Return what the system says of a process, from its state on: the third field and the rest."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
