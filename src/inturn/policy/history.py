"""A job's history of errors: its first few and its last, whatever lies between them.

A traceback is kept of the first error and of the last. Those between are mostly the same, and a
history is written again with each attempt.
"""

from __future__ import annotations

import msgspec

from inturn.model import bounds
from inturn.model.job import AttemptError

Errors = tuple[AttemptError, ...]


def with_error(errors: Errors, added: AttemptError) -> Errors:
    """Return a history with one more error, and one fewer in its middle if it is full.

    The same stands in the PostgreSQL function ``inturn.with_error``; the contract suite compares
    the two stores.
    """
    if len(errors) > 1:
        errors = (*errors[:-1], msgspec.structs.replace(errors[-1], traceback=None))
    if len(errors) < bounds.ERRORS_MAX:
        return (*errors, added)
    middle = bounds.ERRORS_FIRST_MAX
    left_out, following, *last = (*errors[middle:], added)
    following = msgspec.structs.replace(following, left_out=left_out.left_out + 1)
    return (*errors[:middle], following, *last)
