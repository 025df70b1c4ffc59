"""An app whose schedule has one job for every second, whatever was missed."""

from __future__ import annotations

import os

import inturn

app = inturn.App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))


@app.every("1s", catch_up="all")
@app.job
def tick() -> None:
    """Do nothing."""
