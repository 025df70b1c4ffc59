"""Which process a worker is, so that another on its machine can tell for sure that it is gone."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def identity(*pids: int) -> str:
    """Name processes of this machine, as nobody else is named until it is started again.

    Empty where the system does not say, or when one of them has ended.
    """
    machine = _machine()
    try:
        started = [(pid, _started(pid)) for pid in pids]
    except OSError:
        return ""
    if machine is None or any(ticks is None for _, ticks in started):
        return ""
    return " ".join([machine, *(f"{pid}:{ticks}" for pid, ticks in started)])


def is_gone(named: str, *, first_only: bool = False) -> bool:
    """Whether the processes of an ``identity`` are gone for sure; in any doubt they are not.

    ``first_only``: whether the first of them is, whatever became of the others.
    """
    boot, namespace, *processes = named.split() or ["", ""]
    if not processes or f"{boot} {namespace}" != _machine():
        return False
    return all(
        _is_gone(*map(int, one.split(":"))) for one in processes[: 1 if first_only else None]
    )


def _machine() -> str | None:
    """Name the machine since it was started, and the numbers that its processes have for us."""
    try:
        if os.readlink(_PROC / "self") != str(os.getpid()):  # it shows another namespace's numbers
            return None
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return None


def _is_gone(pid: int, ticks: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is someone else's
        return False
    try:
        return _started(pid) != ticks
    except OSError:  # it cannot be looked at, or has just ended: it is asked for again later
        return False


def _started(pid: int) -> int | None:
    """Return when a process was started; None if it has ended and its parent has not looked yet."""
    # The name, in parentheses, may hold anything; state, threads and start follow it.
    fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    state, threads, ticks = fields[0], int(fields[17]), int(fields[19])
    return None if state in "ZX" and threads <= 1 else ticks
