"""The diary: what handlers say they do, a line each, in a file that survives whoever writes it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from uuid import UUID

import msgspec

VARIABLE = "INTURN_DEMO_DIARY"

Event = Literal["started", "done", "failed"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line: which job, what of it, in which attempt, by which process, when."""

    event: Event
    job: UUID
    attempt: int
    token: int
    pid: int
    at: float
    note: str = ""


class Diary:
    """Reads and writes one file. Lines are appended whole, so that many may write at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    @classmethod
    def of_this_process(cls) -> Diary:
        """Return the diary that the demo gave to its workers."""
        return cls(Path(os.environ[VARIABLE]))

    def write(self, event: Event, *, job: UUID, attempt: int, token: int, note: str = "") -> None:
        """Append a line."""
        entry = Entry(
            event=event,
            job=job,
            attempt=attempt,
            token=token,
            pid=os.getpid(),
            at=time.time(),
            note=note,
        )
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, msgspec.json.encode(entry) + b"\n")
        finally:
            os.close(descriptor)

    def news(self) -> Iterator[Entry]:
        """Return the lines that came since the last time."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                yield msgspec.json.decode(line, type=Entry)
