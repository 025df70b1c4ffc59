"""An app whose jobs make and remove files on three nodes, slowly enough to be killed in between."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import inturn

app = inturn.App(os.environ.get("INTURN_STORE", "sqlite:///work.db"))
folder = Path(os.environ.get("KILLED_FOLDER", "."))
for node in ("n0", "n1", "n2"):
    app.node(node, concurrency=3)

PLAIN = inturn.RetryPolicy(attempts_max=20, base_seconds=0.01, cap_seconds=0.05)
SLOW_SECONDS = 0.08


def _pause(name: str) -> None:
    time.sleep(Random(f"{name} {time.monotonic_ns()}").uniform(0, SLOW_SECONDS))


def _complain(said: str) -> None:
    with (folder / "complaints").open("a") as complaints:
        complaints.write(f"{said}\n")


@app.job(retry=PLAIN)
def do(node: str, name: str, once: bool) -> None:
    """Make the step's file; complain if it is there although the step was to be verified first."""
    _pause(name)
    file = folder / node / name
    if file.exists() and once:
        _complain(f"{name} ran again although it was applied")
    if (folder / "undone").exists():
        _complain(f"{name} ran after the undo had begun")
    file.touch()
    _pause(name)


@app.job(retry=PLAIN)
def refuse(node: str, name: str) -> None:
    """Fail for good."""
    _pause(name)
    raise inturn.Reject(f"{name} is refused")


@app.job(retry=PLAIN)
def undo(node: str, name: str, followers: list[str]) -> None:
    """Remove the step's file; complain if one that comes after it is still there."""
    (folder / "undone").touch()
    _pause(name)
    for other in followers:
        if (folder / other).exists():
            _complain(f"{name} is undone before {other}")
    (folder / node / name).unlink(missing_ok=True)
    _pause(name)


@app.job(retry=PLAIN)
def verify(node: str, name: str) -> inturn.Effect:
    """Say whether the step's file is there."""
    _pause(name)
    there = (folder / node / name).exists()
    return inturn.Effect.APPLIED if there else inturn.Effect.NOT_APPLIED
