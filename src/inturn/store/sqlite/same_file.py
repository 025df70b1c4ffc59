"""Whether the file that is open is still the one that its name leads to."""

from __future__ import annotations

import os

from inturn.model.errors import StoreReplaced
from inturn.store.sqlite.connection import MEMORY
from inturn.store.sqlite.inheritance import identity


class SameFile:
    """A database and its write-ahead log, as they were when they were opened.

    SQLite goes on writing to a file that was deleted, or replaced by another, and says nothing:
    what is committed then is gone when the last program closes it. To look before every commit
    costs a few microseconds, where a commit costs from fifty to thousands of them. Neither file
    ever changes while it is open: the log is emptied in its place, and removed with the last
    connection only.
    """

    def __init__(self, path: str) -> None:
        names: list[str] = []
        if path != MEMORY:
            # Absolute, because a program may go to another folder.
            names = [os.path.abspath(path), f"{os.path.realpath(path)}-wal"]
        self._files = [(name, identity(name)) for name in names]

    def check(self) -> None:
        """Refuse to go on if either file is gone or is another. Raises ``StoreReplaced``."""
        for name, file in self._files:
            if file is not None and identity(name) != file:
                raise StoreReplaced(
                    f"{name} was deleted or replaced while this program had it open: what it "
                    f"writes would be lost. Nothing of this call was written. Stop every program "
                    f"that uses it, put the right file back together with its -wal, and start "
                    f"them again."
                )
