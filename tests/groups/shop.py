"""An app as `inturn -A` finds it: two nodes, and a job that can be told to fail."""

from __future__ import annotations

import os
from pathlib import Path

import inturn

app = inturn.App(os.environ.get("SHOP_STORE", "sqlite:///work.db"))
app.node("left", "sqlite:///left.db")
app.node("right", "sqlite:///right.db", concurrency=1)


@app.job
def touch(name: str) -> None:
    """Make a file, unless it is told not to."""
    if Path(f"{name}.no").exists():
        raise inturn.Reject(f"{name} is not to be")
    Path(name).touch()


@app.job
def remove(name: str) -> None:
    """Remove a file, unless it is told not to."""
    if Path(f"{name}.keep").exists():
        raise inturn.Reject(f"{name} is to be kept")
    Path(name).unlink(missing_ok=True)
