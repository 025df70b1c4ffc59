"""A job's history of errors: its last few. How many more there were, its attempts say.

A traceback is kept of the first error kept and of the last. Those between are mostly the same, and
a history is written again with each attempt.
"""

from __future__ import annotations

import msgspec

from inturn.model import bounds
from inturn.model.job import AttemptError

Errors = tuple[AttemptError, ...]


def with_error(errors: Errors, added: AttemptError) -> Errors:
    """Return a history with one more error, and without its first if it is full.

    The same stands in the PostgreSQL function ``inturn.with_error``; the contract suite compares
    the two stores.
    """
    if len(errors) > 1:
        errors = (*errors[:-1], msgspec.structs.replace(errors[-1], traceback=None))
    return (*errors, added)[-bounds.ERRORS_MAX :]
