"""The URL of a PostgreSQL store: checked, and parted into asyncpg's share and ours."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from inturn.model.errors import InvalidStoreURL
from inturn.store.options import Known, read_options

PORT_MAX = 65_535

_KNOWN: Known = {
    "pooler": ("transaction",),
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


def read_url(url: str) -> tuple[str, bool]:
    """Return the URL as asyncpg takes it, and whether it says ``pooler=transaction``."""
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
    if options.pop("pooler", None) is None:
        return url, False
    return urlunsplit(parts._replace(query=urlencode(options))), True


def application_name(url: str) -> str:
    """Return what connections are called in the server's lists: as the URL says, or inturn."""
    return dict(parse_qsl(urlsplit(url).query)).get("application_name") or "inturn"


def _check_port(port: str) -> None:
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        raise InvalidStoreURL(
            f"the store's address has the port {port!r}; a port is a number from 1 to {PORT_MAX}."
        )
