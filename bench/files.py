"""The file of one run, on a disk with nothing left to write of those before."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def empty_file() -> Iterator[Path]:
    """Yield where one run of one side keeps its SQLite file, which goes with it."""
    with tempfile.TemporaryDirectory(prefix="inturn-bench-") as folder:
        os.sync()
        yield Path(folder) / "work.db"


@contextlib.contextmanager
def empty_store() -> Iterator[str]:
    """Yield the URL of such a file."""
    with empty_file() as path:
        yield f"sqlite:///{path}"
