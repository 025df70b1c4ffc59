"""The app of ``jobs`` in a worker with more patience than people have.

For tests of what a worker does, and not of how soon: a busy machine may stand still for a while.
"""

from __future__ import annotations

from typing import Any

from inturn.worker import background, runs, step, work_process, worker
from tests.processes.jobs import app

__all__ = ["app"]

module: Any
for module in (background, step, work_process, worker):
    module.STOP_NOW_SECONDS = 30.0
for module in (runs, step):
    module.SLOW_SECONDS = 60.0
work_process.END_SECONDS_MAX = 120.0
