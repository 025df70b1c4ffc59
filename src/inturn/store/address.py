"""Opening a store by its URL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from inturn.model.admissible import shown
from inturn.model.clock import Clock
from inturn.model.errors import InvalidStoreURL

if TYPE_CHECKING:
    from inturn.store.store import Store

_SQLITE = "sqlite:///"
_MEMORY = ":memory:"
_EXAMPLES = (
    "sqlite:///work.db (a file here), sqlite:////var/lib/app/work.db (an absolute path), "
    "sqlite:///:memory:, postgresql://user@host/database"
)


def connect(url: str, *, clock: Clock | None = None) -> Store:
    """Return the store at a URL, not opened yet."""
    _check_text(url)
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        if not rest.startswith("/") or not rest[1:].partition("?")[0]:
            raise InvalidStoreURL(f"{url!r} names no file. Examples: {_EXAMPLES}.")
        from inturn.store.sqlite.store import SqliteStore

        path, _, query = rest[1:].partition("?")
        return SqliteStore(path, clock=clock, synchronous=_synchronous(query))
    if separator and scheme in ("postgresql", "postgres"):
        try:
            from inturn.store.postgres.store import PostgresStore
        except ImportError as error:
            if error.name != "asyncpg":
                raise
            raise InvalidStoreURL(
                "a store on PostgreSQL needs inturn's extra `postgres`. In a clone: "
                "pip install '.[postgres]'"
            ) from None
        return PostgresStore(url, clock=clock)
    shown = f"{scheme}://…" if separator else url
    raise InvalidStoreURL(f"{shown!r} is not the address of a store. Examples: {_EXAMPLES}.")


def anchored(url: str) -> str:
    """Return a URL that names the same file wherever a process goes, as it does from this folder.

    One whose folder is gone, or has a name that a URL could not hold, stays as it is.
    """
    _check_text(url)
    path = url.removeprefix(_SQLITE)
    if path == url or os.path.isabs(path) or path.partition("?")[0] in ("", _MEMORY):
        return url
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        return url
    return url if "?" in folder else f"{_SQLITE}{os.path.join(folder, path)}"


def is_same(url: str, other: str) -> bool:
    """Say whether two URLs name one store: the same text, or the same file."""
    return _place(url) == _place(other)


def without_password(url: str) -> str:
    """Return a URL without its password, fit to be printed."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return f"{url.partition('://')[0]}://…"
    if password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:…@{host}"))


def _synchronous(options: str) -> Literal["full", "normal"]:
    """Return the one option that the address of a SQLite store may have."""
    value: Literal["full", "normal"] = "full"
    for name, given in parse_qsl(options, keep_blank_values=True):
        if name != "synchronous":
            raise InvalidStoreURL(
                f"the store's address has the option {name!r}, which SQLite stores do not have. "
                f"There are: synchronous."
            )
        if given not in ("full", "normal"):
            raise InvalidStoreURL(
                f"the store's address has synchronous={given!r}, which may only be full or normal."
            )
        value = "normal" if given == "normal" else "full"
    return value


def _place(url: str) -> str:
    if not url.startswith(_SQLITE):
        return url
    path, _, _ = url.removeprefix(_SQLITE).partition("?")
    return f"{_SQLITE}{os.path.realpath(path)}"


def _check_text(url: str) -> None:
    if not isinstance(url, str):
        raise InvalidStoreURL(
            f"the address of a store must be text, not {shown(url)}. Examples: {_EXAMPLES}."
        )
    if "\x00" in url or any("\ud800" <= letter <= "\udfff" for letter in url):
        raise InvalidStoreURL("the address of a store holds NUL or half a character.")
