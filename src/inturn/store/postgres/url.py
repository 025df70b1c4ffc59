"""The URL of a PostgreSQL store, parted into asyncpg's share and ours."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from inturn.model.errors import InvalidStoreURL

CONNECTIONS_MAX = 10_000


class Address(NamedTuple):
    """What the URL of a store says: to asyncpg, and to us."""

    url: str  # as asyncpg takes it
    pooler: bool  # it says ``pooler=transaction``
    connections_max: int | None
    application_name: str


def read_url(url: str) -> Address:
    """Take our own options out of a URL; what is left is asyncpg's to check."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidStoreURL(f"the store's address cannot be read: {error}.") from error
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    pooler, connections_max = options.pop("pooler", None), options.pop("connections_max", None)
    if pooler not in (None, "transaction"):
        raise InvalidStoreURL(
            f"the store's address has pooler={pooler!r}, which may only be transaction."
        )
    if pooler or connections_max is not None:
        url = urlunsplit(parts._replace(query=urlencode(options)))
    name = options.get("application_name") or "inturn"
    return Address(url, pooler is not None, _number_of_connections(connections_max), name)


def _number_of_connections(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= CONNECTIONS_MAX):
        raise InvalidStoreURL(
            f"the store's address has connections_max={text!r}; it is a number from 1 to "
            f"{CONNECTIONS_MAX}."
        )
    return int(text)
