"""Opening a store by its URL."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from inturn.model.clock import Clock
from inturn.model.errors import InvalidStoreURL

if TYPE_CHECKING:
    from inturn.store.protocol import Store

_EXAMPLES = (
    "sqlite:///work.db (a file here), sqlite:////var/lib/app/work.db (an absolute path), "
    "sqlite:///:memory:, postgresql://user@host/database"
)


def connect(url: str, *, clock: Clock | None = None) -> Store:
    """Return the store at a URL, not opened yet."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        if not rest.startswith("/") or len(rest) < 2:
            raise InvalidStoreURL(f"{url!r} names no file. Examples: {_EXAMPLES}.")
        from inturn.store.sqlite.store import SqliteStore

        path, _, options = rest[1:].partition("?")
        match dict(parse_qsl(options, keep_blank_values=True)):
            case {} if not options:
                return SqliteStore(path, clock=clock)
            case {"synchronous": "full" | "normal" as synchronous, **more} if not more:
                return SqliteStore(path, clock=clock, synchronous=synchronous)
        raise InvalidStoreURL(
            f"{url!r} has an option that SQLite stores do not have. "
            f"There is ?synchronous=full (the default) and ?synchronous=normal."
        )
    if separator and scheme in ("postgresql", "postgres"):
        try:
            from inturn.store.postgres.store import PostgresStore
        except ImportError as error:
            if error.name != "asyncpg":
                raise
            raise InvalidStoreURL(
                f"{url.split('@')[-1]!r} needs asyncpg: pip install 'inturn[postgres]'."
            ) from error
        return PostgresStore(url, clock=clock)
    shown = f"{scheme}://…" if separator else url
    raise InvalidStoreURL(f"{shown!r} is not the address of a store. Examples: {_EXAMPLES}.")
