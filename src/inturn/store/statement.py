"""A caller's own statement inside a store's transaction: what it may not be."""

from __future__ import annotations

import re

from inturn.model.admissible import check_text
from inturn.model.errors import BadInput

_SPACE_AND_COMMENTS = r"(?:[\s;\ufeff]|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_ENDS_OR_BEGINS = re.compile(
    _SPACE_AND_COMMENTS
    + r"(begin|start\s+transaction|commit|end|rollback|abort|savepoint|release"
    + r"|prepare\s+transaction)\b",
    re.IGNORECASE | re.DOTALL,
)


def check_statement(sql: str) -> None:
    """Refuse a statement that begins or ends transactions: the block it stands in does that."""
    check_text("statement", sql)
    found = _ENDS_OR_BEGINS.match(sql)
    if found is not None:
        raise BadInput(
            f"{found[1]!r} inside a transaction of the store: it commits at the end of its block "
            f"and rolls back when an error leaves it. Leave the statement out, or raise an error."
        )
