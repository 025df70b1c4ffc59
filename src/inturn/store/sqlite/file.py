"""The file that is open: still the one its name leads to, and opened after the last fork.

SQLite goes on writing to a file that was deleted or replaced, and what is committed then is gone.
And its locks belong to a process: a forked child that opens a file which its parent had open takes
none of its own, and the parent's close removes the log that the child writes to.
"""

from __future__ import annotations

import os
from collections import Counter

from inturn.model.errors import StoreError, StoreReplaced
from inturn.model.forks import in_forked_child

MEMORY = ":memory:"
Identity = tuple[int, int]

_open: Counter[Identity] = Counter()  # how often this process has each file open
_inherited: set[Identity] = set()


class OpenFile:
    """A database and its write-ahead log as they were when it was opened: neither ever changes.

    To look before every commit costs a few microseconds, a commit from fifty to thousands.
    """

    def __init__(self, path: str) -> None:
        # Absolute, because a program may go to another folder.
        names = [os.path.abspath(path), f"{os.path.realpath(path)}-wal"] if path != MEMORY else []
        self._files = [(name, _identity(name)) for name in names]
        _open.update(file for _, file in self._files[:1] if file is not None)

    def check(self) -> None:
        """Refuse to go on if either file is gone or is another. Raises ``StoreReplaced``."""
        for name, file in self._files:
            if file is not None and _identity(name) != file:
                raise StoreReplaced(
                    f"{name} was deleted or replaced while this program had it open: what it "
                    f"writes would be lost. Nothing of this call was written. Stop every program "
                    f"that uses it, put the right file back together with its -wal, and start "
                    f"them again."
                )

    def close(self) -> None:
        """Note that this process has the file open once less."""
        _open.subtract(file for _, file in self._files[:1] if file is not None)


def check_not_inherited(path: str) -> None:
    """Refuse a file that the parent had open when it forked this process."""
    if _inherited and _identity(path) in _inherited:
        raise StoreError(
            f"{path} was open in the process that this one was forked from, and SQLite's locks do "
            f"not outlive a fork: what is committed here could be lost. Close the app before the "
            f"fork, use it in the child only, or start the child anew: "
            f'multiprocessing.set_start_method("spawn").'
        )


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _inherit() -> None:
    _inherited.update(+_open)
    _open.clear()


in_forked_child(_inherit)
