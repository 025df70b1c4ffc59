"""An app whose worker works well, and whose stop hook ends the process, as it is told to."""

from __future__ import annotations

import asyncio
import os

from inturn import App
from tests.processes.jobs import effect

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))


@app.on_stop
async def part() -> None:
    match os.environ["RUDE_END"]:
        case "os._exit(0)":
            os._exit(0)
        case "os._exit(7)":
            os._exit(7)
        case "KeyboardInterrupt":
            raise KeyboardInterrupt
        case "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)


@app.job
async def note(name: str) -> None:
    effect("ran", name, 0)
