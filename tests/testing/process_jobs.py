"""An app with a job that a worker would run in a process of its own."""

from __future__ import annotations

import os

from inturn import App

app = App("sqlite:///:memory:")


@app.job(process=True)
def where() -> int:
    """Say in which process it runs."""
    return os.getpid()
