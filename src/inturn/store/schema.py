"""An application's tables: who owns them, where their migrations are, and how they are named."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from inturn.model.errors import BadInput

EngineName = Literal["sqlite", "postgres"]

_OWNER = re.compile(r"[a-z][a-z0-9_]*")
_NAMES = re.compile(
    r"--[^\n]*|/\*.*?\*/|'[^']*'|\"[^\"]*\""
    r"|(?<![\w.])(?P<owner>[a-z][a-z0-9_]*)\.(?P<name>[a-z_]\w*)",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one owner: ``Schema("shop", "shop")``.

    ``package`` is the one that has the folders ``migrations/sqlite`` and ``migrations/postgres``.
    In its SQL a table is written ``shop.order``, in both dialects; and so are those of the owners
    it ``requires``. So an owner's name can be no alias there.
    """

    owner: str
    package: str
    requires: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for owner in (self.owner, *self.requires):
            if not _OWNER.fullmatch(owner):
                raise BadInput(f"an owner of tables is a name like 'shop', not {owner!r}.")
        _by_package[self.package] = self


_by_package: dict[str, Schema] = {}


def owners_of(package: str) -> Collection[str]:
    """Return the owners whose tables a package's SQL may name."""
    schema = _by_package.get(package)
    return () if schema is None else (schema.owner, *schema.requires)


def written_for(text: str, owners: Collection[str], engine: EngineName) -> str:
    """Return SQL with each ``owner.table`` as the engine has it: ``owner_table`` in SQLite, which
    has no schemas, and ``inturn_owner.table`` in PostgreSQL.
    """

    def written(found: re.Match[str]) -> str:
        owner, name = found["owner"], found["name"]
        if owner not in owners:
            return found[0]
        return f"{owner}_{name}" if engine == "sqlite" else f"inturn_{owner}.{name}"

    return _NAMES.sub(written, text)
