"""Files that were open when this process was forked: it must not open them again.

SQLite's locks belong to a process. A child that opens a file which its parent had open at the fork
takes its parent's locks for its own, and takes none: when the parent closes the file, it finds
itself alone and removes the log that the child writes to, and with it what the child has committed.
"""

from __future__ import annotations

import os
from collections import Counter

from inturn.model.errors import StoreError
from inturn.model.forks import in_forked_child

Identity = tuple[int, int]

_open: Counter[Identity] = Counter()  # how often this process has each file open
_inherited: set[Identity] = set()


def check_not_inherited(path: str) -> None:
    """Refuse a file that the parent had open when it forked this process."""
    if _inherited and identity(path) in _inherited:
        raise StoreError(
            f"{path} was open in the process that this one was forked from, and SQLite's locks do "
            f"not outlive a fork: what is committed here could be lost. Close the app before the "
            f"fork, use it in the child only, or start the child anew: "
            f'multiprocessing.set_start_method("spawn").'
        )


def note_open(path: str) -> Identity | None:
    """Note that this process has a file open; return what it is known by."""
    file = identity(path)
    if file is not None:
        _open[file] += 1
    return file


def note_closed(file: Identity | None) -> None:
    """Note that this process has a file open once less."""
    if file is not None:
        _open[file] -= 1


def identity(path: str) -> Identity | None:
    """Return which file a name leads to, or nothing if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _inherit() -> None:
    _inherited.update(+_open)
    _open.clear()


in_forked_child(_inherit)
