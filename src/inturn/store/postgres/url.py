"""The URL of a PostgreSQL store: checked, and parted into asyncpg's share and ours."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from inturn.model.errors import InvalidStoreURL
from inturn.store.options import Known, read_options

PORT_MAX = 65_535
CONNECTIONS_MAX = 10_000

_KNOWN: Known = {
    "pooler": ("transaction",),
    "connections_max": None,
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslcert": None,
    "sslkey": None,
    "sslpassword": None,
    "sslrootcert": None,
    "sslcrl": None,
    "sslnegotiation": ("postgres", "direct"),
    "ssl_min_protocol_version": None,
    "ssl_max_protocol_version": None,
    "target_session_attrs": (
        "any", "primary", "standby", "read-write", "read-only", "prefer-standby",
    ),
    "host": None,
    "port": None,
    "user": None,
    "password": None,
    "passfile": None,
    "dbname": None,
    "database": None,
    "service": None,
    "krbsrvname": None,
    "gsslib": None,
    "application_name": None,
    "options": None,
}  # fmt: skip


class Address(NamedTuple):
    """What the URL of a store says: to asyncpg, and to us."""

    url: str  # as asyncpg takes it
    pooler: bool  # it says ``pooler=transaction``
    connections_max: int | None


def read_url(url: str) -> Address:
    """Part a URL into asyncpg's share and ours."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidStoreURL(f"the store's address cannot be read: {error}.") from error
    options = read_options(parts.query, _KNOWN, of="PostgreSQL stores")
    for host in parts.netloc.rpartition("@")[2].split(","):
        named = re.search(r":([^\]]*)$", host)  # behind the brackets of an IPv6 address, if any
        if named is not None:
            _check_port(named[1])
    for port in options["port"].split(",") if "port" in options else ():
        _check_port(port)
    pooler = options.pop("pooler", None) is not None
    connections_max = options.pop("connections_max", None)
    if pooler or connections_max is not None:
        url = urlunsplit(parts._replace(query=urlencode(options)))
    return Address(url, pooler, _number_of_connections(connections_max))


def application_name(url: str) -> str:
    """Return what connections are called in the server's lists: as the URL says, or inturn."""
    return dict(parse_qsl(urlsplit(url).query)).get("application_name") or "inturn"


def _number_of_connections(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= CONNECTIONS_MAX):
        raise InvalidStoreURL(
            f"the store's address has connections_max={text!r}; it is a number from 1 to "
            f"{CONNECTIONS_MAX}."
        )
    return int(text)


def _check_port(port: str) -> None:
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        raise InvalidStoreURL(
            f"the store's address has the port {port!r}; a port is a number from 1 to {PORT_MAX}."
        )
