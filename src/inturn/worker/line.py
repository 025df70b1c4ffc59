"""The line between a crew's parent and one member: orders one way, reports the other.

It is the member's standard input, a socket, with one JSON document a line. When the parent dies,
however it dies, the line ends; and then the member stops too.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from inturn.model.worker_events import Counts, Started
from inturn.worker.pulse import Health
from inturn.worker.settings import WorkSettings


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Begin to work, and write events as JSON or as a log.

    When ``crew_is_up``, others work already, and a store that cannot be used is for the parent to
    tell of.
    """

    settings: WorkSettings
    as_json: bool
    debug: bool
    crew_is_up: bool


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Finish what runs, and end."""

    why: str


class StopNow(msgspec.Struct, frozen=True, tag="stop_now"):
    """Give back what runs, and end."""

    why: str


class Up(msgspec.Struct, frozen=True, tag="up"):
    """The member works from now on."""

    started: Started


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """How the member does, and what became of its jobs so far."""

    health: Health
    counts: Counts
    running: int


class NoStore(msgspec.Struct, frozen=True, tag="no_store"):
    """The member cannot begin, and ends, for the store is away or may not be used."""

    why: str


class Complained(msgspec.Struct, frozen=True, tag="complained"):
    """The member cannot go on, and ends; it has said why on standard error."""


class Emptied(msgspec.Struct, frozen=True, tag="emptied"):
    """The member has drained what it was to drain; what is left to it are the stop hooks."""


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The member has ended as it should. One that is gone without this was ended, whatever code it
    left: a job may have called ``os._exit(0)``.
    """


Order = Begin | Stop | StopNow
Report = Up | Beat | NoStore | Complained | Emptied | Finished

orders = msgspec.json.Decoder(Order)
reports = msgspec.json.Decoder(Report)


def spoken(word: Order | Report) -> bytes:
    """Return an order or a report as it goes over the line."""
    return msgspec.json.encode(word) + b"\n"


class MemberLine:
    """The member's end of the line."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._lines = end.makefile("rb")

    @classmethod
    def from_stdin(cls) -> MemberLine:
        """Take over standard input, so that no handler reads from it or hands it on."""
        end = socket.socket(fileno=os.dup(0))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        end.setblocking(True)  # whatever timeout new sockets have
        return cls(end)

    def orders(self) -> Iterator[Order]:
        """Wait for the parent's orders, as long as there is a parent."""
        with suppress(OSError):
            for line in self._lines:
                yield orders.decode(line)

    def report(self, word: Report) -> None:
        """Say something to the parent, if there still is one."""
        with self._lock, suppress(OSError):
            self._end.sendall(spoken(word))
