"""The detour: connections of a process to the database's server lead through the run's proxy.

The store's URL stays as it is. A URL that named the proxy would not do: what hangs on the server's
name, an entry of ``.pgpass`` or the name that TLS checks, would not be found any more.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

HERE = "127.0.0.1"
PORT_DEFAULT = "5432"


class Detour(msgspec.Struct, frozen=True, kw_only=True):
    """From whom to whom: a server, and a port of this machine that leads to it."""

    host: str
    port: int
    through: int

    def take(self) -> None:
        """Let every event loop of this process go through the proxy when it calls the server.

        A worker has more than one, the heartbeat's among them, so that it is their class which
        learns the way.
        """
        straight: Any = asyncio.BaseEventLoop.create_connection

        async def create_connection(
            loop: asyncio.BaseEventLoop,
            factory: Any,
            host: str | None = None,
            port: int | None = None,
            **options: Any,
        ) -> Any:
            if host is not None and (host.lower(), port) == (self.host, self.port):
                if options.get("ssl") and options.get("server_hostname") is None:
                    options["server_hostname"] = host  # the name that its certificate has
                host, port = HERE, self.through
            return await straight(loop, factory, host, port, **options)

        asyncio.BaseEventLoop.create_connection = create_connection  # type: ignore[assignment]


def server_of(url: str) -> tuple[str, int] | None:
    """Return the host and port that a URL names; None if it names none, several, or a socket."""
    hosts = urlsplit(url).netloc.rpartition("@")[2]
    named = re.fullmatch(r"(?:\[([^]]+)\]|([^:,]+))(?::(\d+))?", hosts)
    if named is None:
        return None
    host = unquote(named[1] or named[2]).lower()
    port = named[3] or os.environ.get("PGPORT") or PORT_DEFAULT
    return (host, int(port)) if port.isdigit() and not host.startswith("/") else None
