"""Programs that workers run for steps: without a shell, killed with all they started."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from inturn.groups.errors import NothingDone

OUTPUT_BYTES_KEPT = 4_000  # the last of what it printed
_READ_BYTES = 65_536


class EndedProgram(NamedTuple):
    """How a program ended, and the last of what it printed."""

    code: int
    output: str

    def __str__(self) -> str:
        how = f"was killed by signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"{how}: {self.output}" if self.output else how


async def run(arguments: Sequence[str]) -> EndedProgram:
    """Run a program to its end. Cancelled, or killed itself, it kills it with all it started."""
    watched, lifeline = os.pipe()
    try:
        return await _run(arguments, watched)
    finally:
        os.close(lifeline)


async def _run(arguments: Sequence[str], watched: int) -> EndedProgram:
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=[watched],
            start_new_session=True,
        )
        _kill_at_close(watched, process.pid)
    except OSError as error:
        raise NothingDone(f"{arguments[0]!r} cannot be started: {error}") from error
    finally:
        os.close(watched)
    try:
        output = await _last_of(process)
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # what it left behind as well
        await process.wait()
    return EndedProgram(code, output.decode(errors="replace").replace("\x00", "").strip())


def _kill_at_close(watched: int, group: int) -> None:
    """Have the kernel kill a group of processes when nobody holds the pipe's other end any more.

    So it does when the worker is killed, as long as one of the processes has the pipe open. Only
    Linux can.
    """
    if not hasattr(fcntl, "F_SETSIG"):
        return
    with suppress(OSError):  # a sandbox may not have it
        fcntl.fcntl(watched, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(watched, fcntl.F_SETOWN, -group)
        flags = fcntl.fcntl(watched, fcntl.F_GETFL)
        fcntl.fcntl(watched, fcntl.F_SETFL, flags | os.O_ASYNC)


async def _last_of(process: asyncio.subprocess.Process) -> bytes:
    """Read what a program prints to its end, and return the last of it."""
    assert process.stdout is not None
    kept = b""
    while chunk := await process.stdout.read(_READ_BYTES):
        kept = (kept + chunk)[-OUTPUT_BYTES_KEPT:]
    return kept
