"""An app whose worker never begins: what it does at the start fails."""

from __future__ import annotations

import os

from inturn import App
from tests.processes.jobs import effect

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))


@app.on_start
async def connect() -> None:
    effect("started", "connect", 0)
    raise OSError("no such host")


@app.job
async def send() -> None: ...
