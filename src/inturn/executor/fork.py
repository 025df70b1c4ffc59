"""A child process that a job forked and that came back from it, where it must not go on."""

from __future__ import annotations

import os
from typing import NoReturn

_FORK_EXIT_CODE = 70  # what the job raised in the child is told to nobody else: EX_SOFTWARE


def end_fork(error: BaseException | None) -> NoReturn:
    """End this process. It has the jobs of the one that it was forked from, which runs them."""
    os._exit(0 if error is None else _FORK_EXIT_CODE)
