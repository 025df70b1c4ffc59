"""The history: what each process says that it does, a line each, in files outside the store.

A file per process, appended to and never rewritten, so that it survives whoever writes it. Times
are those of the machine's monotonic clock, which processes of one machine share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Literal, TypeVar
from uuid import UUID

import msgspec

from inturn.model.errors import StoreError

Said = Literal["done", "retry", "retry-uncounted", "bury", "release"]


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """One line. ``at``: when it was written; of an answer, when it came."""

    at: float = msgspec.field(default_factory=monotonic)


class Began(Record, frozen=True, kw_only=True, tag="began"):
    """A process is up."""

    name: str
    pid: int


class Left(Record, frozen=True, kw_only=True, tag="left"):
    """A process ends because it was told to."""


class Planned(msgspec.Struct, frozen=True, array_like=True):
    """A job as its producer wants it."""

    id: UUID
    kind: str
    queue: str
    key: str | None
    round: int
    delay_seconds: float
    attempts_max: int
    dedupe: str | None
    after: tuple[UUID, ...]


class Submitting(Record, frozen=True, kw_only=True, tag="submitting"):
    """A producer is about to submit a batch. ``call`` joins it with its answer."""

    call: int
    jobs: tuple[Planned, ...]


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a job that was accepted stands."""

    id: UUID
    lane: int | None
    position: int | None
    duplicate: bool


class Accepted(Record, frozen=True, kw_only=True, tag="accepted"):
    """The store accepted a batch."""

    call: int
    places: tuple[Place, ...]


class Refused(Record, frozen=True, kw_only=True, tag="refused"):
    """The store refused a batch: nothing of it is stored."""

    call: int
    error: str


class Doubted(Record, frozen=True, kw_only=True, tag="doubted"):
    """The store went away in the middle of a call: it happened, or it did not."""

    call: int
    error: str


class Leased(msgspec.Struct, frozen=True, array_like=True):
    """One lease of a claim, with its jobs: id, position, attempt."""

    token: int
    lane: int | None
    key: str | None
    alone: bool
    jobs: tuple[tuple[UUID, int, int], ...]


class Claimed(Record, frozen=True, kw_only=True, tag="claimed"):
    """A worker was given jobs."""

    asked_at: float
    queue: str
    lease_seconds: float
    leases: tuple[Leased, ...]


class Extended(Record, frozen=True, kw_only=True, tag="extended"):
    """A worker prolonged leases: those it kept, as token and lane."""

    asked_at: float
    lease_seconds: float
    kept: tuple[tuple[int, int | None], ...]


class Reclaimed(Record, frozen=True, kw_only=True, tag="reclaimed"):
    """A worker took back leases that ran out."""

    leases: int
    suspects: int
    buried: int


class Started(Record, frozen=True, kw_only=True, tag="started"):
    """A handler began."""

    job: UUID
    token: int
    attempt: int
    pid: int


class Ended(Record, frozen=True, kw_only=True, tag="ended"):
    """A handler came to its end, well or not."""

    job: UUID
    token: int
    ok: bool


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """What a worker says became of a job."""

    job: UUID
    token: int
    lane: int | None
    said: Said


class Settling(Record, frozen=True, kw_only=True, tag="settling"):
    """A worker is about to settle."""

    call: int
    verdicts: tuple[Verdict, ...]


class Settled(Record, frozen=True, kw_only=True, tag="settled"):
    """The store took what a worker settled."""

    call: int


class Cancelling(Record, frozen=True, kw_only=True, tag="cancelling"):
    """A producer is about to cancel a job."""

    job: UUID


class Cancelled(Record, frozen=True, kw_only=True, tag="cancelled"):
    """The store said which state a job has that was to be cancelled."""

    job: UUID
    state: str


class GateMoved(Record, frozen=True, kw_only=True, tag="gate"):
    """The gate of a queue was asked to advance, and did."""

    asked_at: float
    queue: str
    before: int
    round: int


class Dropped(Record, frozen=True, kw_only=True, tag="dropped"):
    """A dead letter that others waited for was dropped, so that they end as well."""

    job: UUID
    attempts: int
    reason: str


class Fault(Record, frozen=True, kw_only=True, tag="fault"):
    """Something was done to a process, a connection or a server."""

    name: str
    target: str
    detail: str = ""


class Failed(Record, frozen=True, kw_only=True, tag="failed"):
    """A fault could not be made, for a reason that nobody meant."""

    name: str
    error: str


class Mended(Record, frozen=True, kw_only=True, tag="mended"):
    """A fault that lasts is over."""

    name: str
    target: str


Event = (
    Began
    | Left
    | Submitting
    | Accepted
    | Refused
    | Doubted
    | Claimed
    | Extended
    | Reclaimed
    | Started
    | Ended
    | Settling
    | Settled
    | Cancelling
    | Cancelled
    | GateMoved
    | Dropped
    | Fault
    | Failed
    | Mended
)
AnyEvent = TypeVar("AnyEvent", bound=Record)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class History:
    """What one process writes. Lines go to the file at once: a killed process loses none.

    A file that may not grow (see the fault ``full-disk``) is followed by another.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self._parts = 0
        self._descriptor = self._open()

    def write(self, event: AnyEvent) -> AnyEvent:
        """Append a line."""
        line = _encoder.encode(event) + b"\n"
        try:
            whole = os.write(self._descriptor, line) == len(line)
        except OSError:
            whole = False
        if not whole:  # the reader leaves out half a line at the end of a file
            os.close(self._descriptor)
            self._descriptor = self._open()
            os.write(self._descriptor, line)
        return event

    def _open(self) -> int:
        while True:
            self._parts += 1
            path = self._folder / f"{self.name}.{self._parts}.jsonl"
            try:
                return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue


class Reader:
    """Reads the histories of a folder as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def news(self) -> Iterator[tuple[str, Event]]:
        """Return the lines that came since the last time, each with who wrote it."""
        for path in sorted(self._folder.glob("*.jsonl")):
            done = self._read.get(path, 0)
            if path.stat().st_size <= done:
                continue
            with path.open("rb") as file:
                file.seek(done)
                content = file.read()
            whole = content.rpartition(b"\n")[0]
            self._read[path] = done + len(whole) + bool(whole)
            for line in whole.splitlines():
                yield path.name.partition(".")[0], _decoder.decode(line)


def read_all(folder: Path) -> list[tuple[str, Event]]:
    """Return a whole history, in the order of its times."""
    try:
        return sorted(Reader(folder).news(), key=lambda said: said[1].at)
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"the history in {folder} cannot be read: {error}. Was it changed, or made by another "
            f"version of inturn?"
        ) from error
