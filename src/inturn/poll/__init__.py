"""Schedules, and sources: jobs at set times, and outside systems whose changes become jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inturn.poll.page import Change, ChangeKind, CursorGone, Page, SourceBroken
from inturn.store.schema import Schema

if TYPE_CHECKING:
    from inturn.poll.extension import Poll
    from inturn.queue.app import App

__all__ = ["SCHEMA", "Change", "ChangeKind", "CursorGone", "Page", "SourceBroken", "attach"]

SCHEMA = Schema("poll", "inturn.poll")


def attach(app: App) -> Poll:
    """Make the schedules and sources of an app: ``App.extension`` calls this."""
    from inturn.poll.extension import Poll

    return Poll(app)
