"""Health for supervisors: a file that is touched while all is well, a port that answers GET."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self

import msgspec

from inturn.model.errors import InvalidSetting
from inturn.worker.pulse import Health

LOOK_SECONDS = 1.0
REQUEST_BYTES_MAX = 8_192
REQUEST_SECONDS_MAX = 5.0

_PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 503: "Service Unavailable"}


class HealthDesk:
    """Where supervisors ask: made ready at once, so that what cannot be is known before work."""

    def __init__(
        self, read: Callable[[], Health], *, file: Path | None, port: int | None, host: str
    ) -> None:
        self._read, self._file = read, file
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
        if self._read().healthy:
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
        health = self._read()
        return method, 200 if health.healthy else 503, msgspec.json.encode(health)


class HealthThread:
    """A desk on a thread and a loop of its own: it answers while the worker's loop is blocked."""

    def __init__(self, desk: HealthDesk) -> None:
        self._desk = desk
        self._loop: asyncio.AbstractEventLoop
        self._closed: asyncio.Event
        self._opened = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._keep()), name="inturn-health", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self._opened.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()

    async def _keep(self) -> None:
        self._loop, self._closed = asyncio.get_running_loop(), asyncio.Event()
        async with self._desk.open():
            self._opened.set()
            await self._closed.wait()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InvalidSetting(
            f"health cannot be served on {host}:{port}: {error}. Choose another --health-port, or "
            f"stop who has this one."
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
