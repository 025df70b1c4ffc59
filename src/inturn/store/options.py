"""The options of a store's URL: which there are, and what they may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl

from inturn.model.errors import InvalidStoreURL

Known = Mapping[str, Collection[str] | None]
"""Options by name, each with what it may be; None: whatever the database takes."""


def read_options(text: str, known: Known, *, of: str) -> dict[str, str]:
    """Return the options in the query of a URL, or say which is wrong and what is known."""
    options = dict(parse_qsl(text, keep_blank_values=True))
    for name, value in options.items():
        if name not in known:
            raise InvalidStoreURL(
                f"the store's address has the option {name!r}, which {of} do not have. "
                f"There are: {', '.join(known)}."
            )
        choices = known[name]
        if choices is not None and value not in choices:
            *others, last = choices
            meant = f"{', '.join(others)} or {last}" if others else last
            raise InvalidStoreURL(
                f"the store's address has {name}={value!r}, which may only be {meant}."
            )
    return options
