"""A small TCP proxy between the processes and PostgreSQL, which cuts connections when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal

from inturn.verify.detour import HERE

CHUNK_BYTES = 64 * 1024

Cut = Literal["request", "answer"]


class Proxy:
    """Passes bytes on, until it is to cut: in the middle of a request, or before its answer."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.port = 0  # its own, once it listens
        self._armed: tuple[Cut, Callable[[], None]] | None = None
        self._pipes: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def before(cls, host: str, port: int) -> AsyncIterator[Proxy]:
        """Stand before a server."""
        proxy = cls(host, port)
        server = await asyncio.start_server(proxy._join, HERE, 0)
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            server.close()
            for pipe in proxy._pipes:
                pipe.cancel()
            await asyncio.gather(*proxy._pipes, return_exceptions=True)

    def cut(self, what: Cut, *, cutting: Callable[[], None]) -> None:
        """Cut the next connection that is used; call ``cutting`` right before."""
        self._armed = what, cutting

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
                what, cutting = armed
                cutting()
                server.write(chunk[: len(chunk) // 2] if what == "request" else chunk)
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
