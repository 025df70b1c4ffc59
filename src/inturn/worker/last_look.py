"""Whether nothing is left to run, for a worker that is to stop then."""

from __future__ import annotations


class LastLook:
    """Looks twice, for something may come between: what was given back, or a suspect."""

    def __init__(self, *, until_empty: bool = False) -> None:
        self.is_wanted = until_empty
        self._is_sure = False

    def found(self) -> None:
        """Hear that there was something to run."""
        self._is_sure = False

    def is_last(self) -> bool:
        """Whether this look was the second that found nothing; the next one is, if it was not."""
        was_sure, self._is_sure = self._is_sure, True
        return was_sure
