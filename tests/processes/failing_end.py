"""An app whose worker works well and does not part well: what it does at the end fails."""

from __future__ import annotations

import os

from inturn import App
from tests.processes.jobs import effect

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))


@app.on_stop
async def part() -> None:
    raise BrokenPipeError("nobody listens")


@app.job
async def note(name: str) -> None:
    effect("ran", name, 0)
