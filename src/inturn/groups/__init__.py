"""Commands on nodes, in order, verified, and undone when they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inturn.groups.groups import Groups

if TYPE_CHECKING:
    from inturn.queue.app import App


def attach(app: App) -> Groups:
    """Make the groups of an app."""
    return Groups(app)
