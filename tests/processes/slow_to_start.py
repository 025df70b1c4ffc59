"""An app whose child processes take as long to start as a test wants."""

from __future__ import annotations

import os
import time

from inturn import App, Context
from tests.processes.jobs import effect, folder, may_end

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))


def is_held_up() -> bool:
    """Whether this is a child of the worker whose children are to wait."""
    try:
        return (folder() / "late").read_text() == str(os.getppid())
    except FileNotFoundError:
        return False


@app.job(attempts=3, process=True)
def hold_child(ctx: Context, name: str) -> None:
    effect("began", name, ctx.attempt)
    while not may_end(name):
        time.sleep(0.01)
    effect("ended", name, ctx.attempt)


if "INTURN_TEST_FOLDER" in os.environ and is_held_up():
    effect("importing", "module", 1)
    while is_held_up():
        time.sleep(0.01)
