"""A child process, forked since an executor was made: what is not its own, and where it ends."""

from __future__ import annotations

import os
from typing import NoReturn

from inturn.model.errors import ExecutorClosed

_FORK_EXIT_CODE = 70  # what the job raised in the child is told to nobody else: EX_SOFTWARE


def end_fork(error: BaseException | None) -> NoReturn:
    """End this process. It has the jobs of the one that it was forked from, which runs them."""
    os._exit(0 if error is None else _FORK_EXIT_CODE)


def inherited() -> ExecutorClosed:
    """Return the error for who uses, in a forked child, an executor of its parent."""
    return ExecutorClosed(
        "the executor belongs to the process that this one was forked from, and runs jobs "
        "there. Make one in each process."
    )
