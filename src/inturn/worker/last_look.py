"""Whether nothing is left to run, for a worker that is to stop then."""

from __future__ import annotations

from collections.abc import Callable

from inturn.store.protocol import Store
from inturn.worker.heritage import is_left


class LastLook:
    """Looks twice, for something may come between: what was given back, or a suspect.

    ``heir_of``: whose jobs are waited for as well, once they are dead; see ``is_left``.
    ``emptied``: whom to tell that nothing is left.
    """

    def __init__(
        self,
        emptied: Callable[[], None] = lambda: None,
        *,
        until_empty: bool = False,
        heir_of: str | None = None,
    ) -> None:
        self.emptied = emptied
        self.is_wanted = until_empty
        self._heir_of = heir_of
        self._is_sure = False

    def found(self) -> None:
        """Hear that there was something to run."""
        self._is_sure = False

    async def is_left(self, store: Store, *, heir: str) -> bool:
        """Whether the dead have left jobs that are not to be claimed yet."""
        if self._heir_of is not None:
            if await is_left(store, self._heir_of, heir=heir):
                return True
            self._heir_of, self._is_sure = None, False  # it may have come back since we looked
        return False

    def is_last(self) -> bool:
        """Whether this look was the second that found nothing; the next one is, if it was not."""
        was_sure, self._is_sure = self._is_sure, True
        return was_sure
