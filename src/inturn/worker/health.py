"""Health: whether a worker's loop turns and its store answers; a file and a port that say so."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic
from typing import Protocol

import msgspec

from inturn.model.errors import InvalidSetting
from inturn.model.worker_events import StoreBack, StoreTroubled
from inturn.worker.record import Record

PATIENCE_SECONDS_MIN = 2.0
PATIENCE_SECONDS_MAX = 60.0
LOOK_SECONDS = 1.0
REQUEST_BYTES_MAX = 8_192
REQUEST_SECONDS_MAX = 5.0

_PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 503: "Service Unavailable"}


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a worker works; if not, why."""

    healthy: bool
    why: str | None = None


class WorkerHealth:
    """Notes how a worker does, from any thread, and says once when its store went or came.

    It bears with silence for as long as a lease lasts: after that a worker's jobs are lost anyway.
    """

    def __init__(self, worker: str, record: Record, *, lease_seconds: float) -> None:
        self._worker, self._record = worker, record
        self.patience_seconds = min(max(lease_seconds, PATIENCE_SECONDS_MIN), PATIENCE_SECONDS_MAX)
        self._lock = threading.Lock()
        self._turned_at: float | None = None
        self._beaten_at: float | None = None
        self._failing: set[str] = set()  # who could not reach the store
        self._failing_since = 0.0
        self._answered_at: float | None = None

    @property
    def is_troubled(self) -> bool:
        """Whether the store does not do its work, as far as anyone has noticed."""
        return bool(self._failing)

    def read(self) -> Health:
        """Judge."""
        now = monotonic()
        if self._turned_at is None or self._beaten_at is None:
            return Health(healthy=False, why="it has not begun to work yet")
        for silence, said in (
            (now - self._turned_at, "its loop has not turned"),
            (now - self._beaten_at, "the store has not taken a heartbeat"),
            (now - self._failing_since if self._failing else 0, "the store has not done its work"),
        ):
            if silence > self.patience_seconds:
                return Health(healthy=False, why=f"{said} for {silence:.0f} s")
        return Health(healthy=True)

    def turned(self) -> None:
        """Note that the loop turns."""
        self._turned_at = monotonic()

    def beaten(self) -> None:
        """Note that the store took a heartbeat."""
        self._beaten_at = monotonic()
        self.answered("heartbeat")

    def failed(self, who: str, error: Exception | None = None) -> None:
        """Note that the store did not do its work, and say so, once. ``error``: None if it will not
        be asked again.
        """
        with self._lock:
            is_first = not self._failing
            if is_first:
                answered_at = self._answered_at
                self._failing_since = monotonic() if answered_at is None else answered_at
            self._failing.add(who)
        if is_first and error is not None:
            said = str(error) or "the store did not answer in time."
            self._record.tell(StoreTroubled(worker=self._worker, error=said))

    def answered(self, who: str) -> None:
        """Note that the store did its work, and say so if that was in doubt."""
        now = self._answered_at = monotonic()
        if who in self._failing:
            with self._lock:
                self._failing.discard(who)
                is_back = not self._failing
            if is_back:
                seconds = now - self._failing_since
                self._record.tell(StoreBack(worker=self._worker, seconds=seconds))


class Judged(Protocol):
    """Something that can be asked how it does."""

    def read(self) -> Health:
        """Judge."""
        ...


class HealthServer:
    """Where supervisors ask: made ready at once, so that what cannot be is known before work."""

    def __init__(self, judged: Judged, *, file: Path | None, port: int | None, host: str) -> None:
        self._judged, self._file = judged, file
        self._socket = None if port is None else _listening(host, port)
        if file is not None:
            _check_file(file)

    @property
    def port(self) -> int | None:
        """The port that answers; that which the system chose, if 0 was asked for."""
        return None if self._socket is None else int(self._socket.getsockname()[1])

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Touch the file and answer on the port, meanwhile; take the file away afterwards."""
        async with contextlib.AsyncExitStack() as stack:
            if self._socket is not None:
                server = await asyncio.start_server(
                    self._answer, sock=self._socket, limit=REQUEST_BYTES_MAX
                )
                await stack.enter_async_context(server)
            if self._file is not None:
                touching = asyncio.create_task(self._keep_touching(self._file))
                stack.callback(_take_away, self._file)
                stack.callback(touching.cancel)
            yield

    async def _keep_touching(self, file: Path) -> None:
        while True:
            self._touch(file)
            await asyncio.sleep(LOOK_SECONDS)

    def _touch(self, file: Path) -> None:
        if self._judged.read().healthy:
            with contextlib.suppress(OSError):  # a full disk must not stop the work
                file.touch()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                async with asyncio.timeout(REQUEST_SECONDS_MAX):
                    request = await reader.readuntil(b"\r\n\r\n")
                method, status, body = self._said(request)
            except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                method, status, body = b"", 400, b""
            head = (
                f"HTTP/1.1 {status} {_PHRASES[status]}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
                f"Connection: close\r\n\r\n"
            )
            writer.write(head.encode() + (b"" if method == b"HEAD" else body))
            await writer.drain()
        writer.close()

    def _said(self, request: bytes) -> tuple[bytes, int, bytes]:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD") or path != b"/healthz":
            return method, 404, b'{"error":"there is only GET /healthz, and HEAD"}'
        health = self._judged.read()
        return method, 200 if health.healthy else 503, msgspec.json.encode(health)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InvalidSetting(
            f"health cannot be served on {host}:{port}: {error}. Choose another --health-port, or "
            f"stop the program that has this one."
        ) from error


def _check_file(file: Path) -> None:
    """Refuse a file that cannot be touched, or that is somebody's: it would be taken away."""
    try:
        if file.exists() and not _is_ours(file):
            what = "not empty" if file.is_file() else "not a plain file"
            raise InvalidSetting(
                f"{file} is no health file: it is {what}. It would be removed when the worker "
                f"ends; name one that is not there yet."
            )
        file.touch()
        file.unlink()  # it is there only while all is well
    except OSError as error:
        raise InvalidSetting(
            f"the health file cannot be written: {error}. Name one in a folder that is there and "
            f"that this user may write to."
        ) from error


def _take_away(file: Path) -> None:
    with contextlib.suppress(OSError):
        if _is_ours(file):
            file.unlink()


def _is_ours(file: Path) -> bool:
    """Whether a file may be a health file, which is a file like any other and always empty."""
    return file.is_file() and not file.stat().st_size
