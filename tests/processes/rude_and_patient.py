"""The app of ``rude`` in a worker that gives what was left more time to end than people have."""

from __future__ import annotations

from inturn.worker import leaving
from tests.processes.rude import app

__all__ = ["app"]

leaving.LEFT_SECONDS_MAX = 120.0
