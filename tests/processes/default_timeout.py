"""An app whose module gives every new socket of its program a timeout, as some do for urllib."""

from __future__ import annotations

import os
import socket

from inturn import App
from tests.processes.jobs import effect

SECONDS = 0.1
if "INTURN_TEST_FOLDER" in os.environ:  # in a worker, not in the test that submits its jobs
    socket.setdefaulttimeout(SECONDS)

app = App(os.environ.get("INTURN_STORE", "sqlite:///:memory:"))


@app.job(attempts=1, process=True)
def apart(name: str) -> None:
    effect("ended", name, 1)
