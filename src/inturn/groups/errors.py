"""What an action ends with when it is not applied, or nobody knows."""

from __future__ import annotations

from inturn.model.error import InturnError, Portable
from inturn.model.errors import NotFound

NO_ADDRESS = (
    "the address of its node cannot be read where this worker runs. In a user's name or password "
    "@, /, : and # are written %40, %2F, %3A and %23"
)


class NothingDone(Portable):
    """Nothing of the attempt is there: its node could not be reached, or rolled it all back."""


class ActionFailed(Portable):
    """The action failed, and how far it came is not known."""


class UnknownGroup(NotFound):
    """There is no such group."""

    def __init__(self, group: str) -> None:
        self.group = group
        super().__init__(f"there is no group {group!r} here. List groups: `inturn groups list`.")


class UnknownStep(NotFound):
    """The group has no such step."""


class GroupRefused(InturnError):
    """What was asked for cannot be done to the group as it is."""


class GroupTimeout(InturnError, TimeoutError):
    """The group has not ended yet, and whoever awaited it waited long enough."""
