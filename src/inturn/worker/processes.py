"""Processes of this machine: which one a worker is, whether one is gone for sure, how it ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_PROC = Path("/proc")


def identity(pid: int) -> str:
    """Name a process of this machine, as no other is named until it is started again.

    Empty where the system does not say, or when it has ended.
    """
    machine = _machine()
    try:
        ticks = _started(pid)
    except OSError:
        return ""
    return "" if machine is None or ticks is None else f"{machine} {pid}:{ticks}"


def is_gone(named: str) -> bool:
    """Whether the process of an ``identity`` is gone for sure; in any doubt it is not."""
    machine, _, process = named.rpartition(" ")
    if not machine or machine != _machine():
        return False
    return _is_gone(*map(int, process.split(":")))


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


def how_ended(code: int) -> str:
    """Say how a process ended, by what it left with."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
