"""Where the store's address comes from: --store, then INTURN_STORE, then pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec

from inturn.model.errors import BadInput

VARIABLE = "INTURN_STORE"
_SQLITE = "sqlite:///"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a store, and who named it."""

    url: str
    source: str

    def shown(self) -> str:
        """Return the address without its password."""
        return shown(self.url)


def find_address(flag: str | None, *, environment: Mapping[str, str], folder: Path) -> Address:
    """Return the address that the flag, the environment or a pyproject.toml names, in this order.

    The pyproject.toml is that of the folder, or the nearest above it that names a store.
    """
    if flag:
        return Address(url=flag, source="--store")
    if url := environment.get(VARIABLE):
        return Address(url=url, source=VARIABLE)
    for above in (folder, *folder.parents):
        path = above / "pyproject.toml"
        if path.is_file() and (url := _named_in(path)):
            return Address(url=_seen_from(url, above, folder), source=str(path))
    raise BadInput(
        "no store is named. Pass --store sqlite:///work.db or --store postgresql://user@host/db, "
        f'set {VARIABLE}, or write `store = "…"` under [tool.inturn] in pyproject.toml.'
    )


def shown(url: str) -> str:
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


def _named_in(path: Path) -> str | None:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(
            f"{path} cannot be read: {error}. Mend it, or name the store with --store."
        ) from error
    match content:
        case {"tool": {"inturn": {"store": str(url)}}}:
            return url
        case {"tool": {"inturn": {"store": other}}}:
            raise BadInput(f"{path}: store under [tool.inturn] must be text, not {other!r}.")
        case _:
            return None


def _seen_from(url: str, home: Path, folder: Path) -> str:
    """Return a URL whose file is named relative to ``home`` as it is to be named in ``folder``."""
    name = url.removeprefix(_SQLITE)
    if home == folder or name == url or name.startswith(("/", ":memory:")):
        return url
    return f"{_SQLITE}{home / name}"
