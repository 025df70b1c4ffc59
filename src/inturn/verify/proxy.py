"""A small TCP proxy between the processes and PostgreSQL, which cuts connections when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

CHUNK_BYTES = 64 * 1024
PORT_DEFAULT = 5432

Cut = Literal["request", "answer"]


class Proxy:
    """Passes bytes on, until it is to cut: in the middle of a request, or before its answer."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._armed: Cut | None = None
        self._cuts = 0
        self._pipes: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def before(cls, url: str) -> AsyncIterator[tuple[Proxy, str]]:
        """Stand before the server of a URL; yield the URL that leads through the proxy."""
        parts = urlsplit(url)
        proxy = cls(parts.hostname or "localhost", parts.port or PORT_DEFAULT)
        server = await asyncio.start_server(proxy._join, "127.0.0.1", 0)
        own = server.sockets[0].getsockname()[1]
        user = parts.netloc.rpartition("@")[0]
        netloc = f"{user}@127.0.0.1:{own}" if user else f"127.0.0.1:{own}"
        try:
            yield proxy, urlunsplit(parts._replace(netloc=netloc))
        finally:
            server.close()
            for pipe in proxy._pipes:
                pipe.cancel()
            await asyncio.gather(*proxy._pipes, return_exceptions=True)

    def cut(self, what: Cut) -> None:
        """Cut the next connection that is used."""
        self._armed = what

    async def _join(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        here = asyncio.current_task()
        assert here is not None
        self._pipes.add(here)
        server_writer: asyncio.StreamWriter | None = None
        try:
            server, server_writer = await asyncio.open_connection(self._host, self._port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(client, server_writer))
                group.create_task(_answers(server, back))
        except* (OSError, EOFError):
            pass  # one end is gone, and so is the other
        finally:
            self._pipes.discard(here)
            for writer in (back, server_writer):
                if writer is not None:
                    with suppress(OSError, RuntimeError):
                        writer.transport.abort()

    async def _requests(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while chunk := await client.read(CHUNK_BYTES):
            armed, self._armed = self._armed, None
            if armed is not None:
                self._cuts += 1
                server.write(chunk[: len(chunk) // 2] if armed == "request" else chunk)
                await server.drain()
                raise EOFError
            server.write(chunk)
            await server.drain()
        raise EOFError


async def _answers(server: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
    while chunk := await server.read(CHUNK_BYTES):
        back.write(chunk)
        await back.drain()
    raise EOFError
