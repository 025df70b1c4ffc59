"""The log of a run: a file to which every process appends, so that its lines are in true order."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import msgspec

from inturn.model.job import NewJob


class Line(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happened in a process, written right before or right after it did."""

    at: float = msgspec.field(default_factory=time.time)
    pid: int = msgspec.field(default_factory=os.getpid)


class Sending(Line, frozen=True, kw_only=True):
    """A producer is about to submit a batch."""

    producer: int
    jobs: Sequence[NewJob]


class Answered(Line, frozen=True, kw_only=True):
    """The store has accepted the batch that the producer sent last."""

    producer: int


class Started(Line, frozen=True, kw_only=True):
    """A handler began an attempt."""

    job: UUID
    token: int


class Ended(Line, frozen=True, kw_only=True):
    """A handler came to its end; whether its job was settled so, the store knows."""

    job: UUID
    token: int
    ok: bool


class Struck(Line, frozen=True, kw_only=True):
    """A fault was made to happen; to all processes if it names none."""

    fault: str
    struck: int | None


AnyLine = Sending | Answered | Started | Ended | Struck


class Log:
    """The file. One ``write`` appends a line whole, whoever else writes at the same time.

    Only a process that is killed in the middle of it leaves half a line, which says nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, line: AnyLine) -> None:
        os.write(self._file, b"\n" + msgspec.json.encode(line) + b"\n")

    def lines(self) -> list[AnyLine]:
        found = []
        for line in self._path.read_bytes().splitlines():
            with suppress(msgspec.DecodeError):
                found.append(msgspec.json.decode(line, type=AnyLine))
        return found
