"""The app of ``jobs`` in a worker that tells how late the machine lets it be, by plain naps.

For tests of how soon something is: what the machine takes is told from what a worker takes.
"""

from __future__ import annotations

import os
import threading
import time

from tests.processes.jobs import app, folder

__all__ = ["app"]

NAP_SECONDS = 0.05


def tell_lateness() -> None:
    """Take one nap after the other, and write how late each came to its end."""
    with (folder() / f"late-{os.getpid()}").open("w", buffering=1) as told:
        while True:
            lay_down_at = time.monotonic()
            time.sleep(NAP_SECONDS)
            told.write(f"{time.monotonic() - lay_down_at - NAP_SECONDS:f}\n")


threading.Thread(target=tell_lateness, daemon=True).start()
