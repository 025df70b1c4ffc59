"""Runs of ``inturn verify`` in this process, on a store of either sort."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from inturn.verify.report import Report
from inturn.verify.run import Verification, Wanted
from tests.postgres_server import PostgresServer


class ServerSwitch:
    """Stops a PostgreSQL of ours, in order or as in a crash, and starts it again."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def choose(self, random: Random) -> str:
        return random.choice(("fast", "immediate"))

    async def stop(self, how: str) -> None:
        await asyncio.to_thread(self._server.stop, "fast" if how == "fast" else "immediate")

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)


def verified(
    store: str | None, folder: Path, *, server: PostgresServer | None = None, **wanted: Any
) -> Report:
    """Run it, and return its report."""
    made = Wanted(**{"store": store, "seed": 1, "folder": folder, **wanted})
    switch = None if server is None else ServerSwitch(server)
    return asyncio.run(Verification(made, switch=switch).run())


def explained(report: Report) -> str:
    return "\n".join(report.lines())
