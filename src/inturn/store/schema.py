"""The tables of an owner: its migrations, its version in a store, and how its SQL names them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal, NamedTuple

from inturn.model.errors import BadInput, SchemaMissing, SchemaTooNew, StoreError

EngineName = Literal["sqlite", "postgres"]

ENGINE = "engine"
"""The owner of inturn's own tables."""

ENTRY_POINTS = "inturn.schemas"
"""Where installed packages name their schemas."""

_OWNER = re.compile(r"[a-z][a-z0-9]{0,31}")
_TAKEN = {ENGINE, "inturn", "schema", "sqlite"}  # SQLite would have schema_version, sqlite_…
_NAMES = re.compile(
    r"--[^\n]*|/\*.*?\*/|'[^']*'|\"[^\"]*\""
    r"|(?<![\w.])(?P<owner>[a-z][a-z0-9]*)\.(?P<name>[a-z_]\w*)",
    re.DOTALL | re.IGNORECASE,
)
_MIGRATION = re.compile(r"\d{4}_\w+\.sql")
_OLDEST = re.compile(r"^-- oldest version that still works: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one owner: ``Schema("shop", "shop")``.

    ``package`` is the one that has the files ``migrations/{sqlite,postgres}/0001_name.sql``, one or
    more for each number. In its SQL a table is written ``shop.order``, in both dialects; and so are
    those of the owners it ``requires``. So an owner's name can be no alias there.
    """

    owner: str
    package: str
    requires: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for owner in (self.owner, *self.requires):
            if not _OWNER.fullmatch(owner) or owner in _TAKEN:
                raise BadInput(
                    f"an owner of tables is a name like 'shop', up to 32 letters and digits, and "
                    f"none of {', '.join(sorted(_TAKEN))}; not {owner!r}."
                )
        _by_package[self.package] = self


_by_package: dict[str, Schema] = {}


def owners_of(package: str) -> Collection[str]:
    """Return the owners whose tables a package's SQL may name."""
    schema = _by_package.get(package)
    return () if schema is None else (schema.owner, *schema.requires)


def written_for(text: str, owners: Collection[str], engine: EngineName) -> str:
    """Return SQL with each ``owner.table`` as the engine has it: ``owner_table`` in SQLite, which
    has no schemas, and ``inturn_owner.table`` in PostgreSQL. Quotes and comments stay as they are.
    """

    def written(found: re.Match[str]) -> str:
        owner, name = found["owner"], found["name"]
        if owner not in owners:
            return found[0]
        return f"{owner}_{name}" if engine == "sqlite" else f"inturn_{owner}.{name}"

    return _NAMES.sub(written, text)


# Migrations


class Migration(NamedTuple):
    """One step from a version to the next."""

    number: int
    text: str
    oldest: int
    """The oldest version whose programs still work on these tables; its own number, unless a line
    of the file says "-- oldest version that still works: 3"."""


def read_migrations(folder: Traversable) -> list[Migration]:
    """Return the migrations of a folder, in order; files with the same number are one."""
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}, where the migrations should be.")
    texts: dict[int, str] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.lower().endswith(".sql"):
            if not _MIGRATION.fullmatch(file.name):
                raise BadInput(
                    f"{file.name} in {folder} is no name of a migration: 0001_name.sql is."
                )
            number = int(file.name[:4])
            texts[number] = texts.get(number, "") + file.read_text(encoding="utf-8")
    if list(texts) != list(range(1, len(texts) + 1)):
        raise StoreError(f"the migrations in {folder} have numbers {list(texts)}; 1, 2, … needed.")
    return [
        Migration(number, text, min(map(int, _OLDEST.findall(text)), default=number))
        for number, text in texts.items()
    ]


@cache
def migrations_of(schema: Schema, engine: EngineName) -> list[Migration]:
    """Return an application's migrations, as an engine runs them."""
    try:
        folder = files(schema.package).joinpath("migrations", engine)
    except ModuleNotFoundError as error:
        raise BadInput(
            f"there is no package {schema.package!r}, which {schema.owner!r} names for its "
            f"migrations: {error}."
        ) from error
    return [
        one._replace(text=written_for(one.text, owners_of(schema.package), engine))
        for one in read_migrations(folder)
    ]


def in_order(schemas: Iterable[Schema]) -> list[Schema]:
    """Return schemas so that each comes after those it requires, as far as they are here."""
    by_owner: dict[str, Schema] = {}
    for schema in schemas:
        if by_owner.setdefault(schema.owner, schema) != schema:
            raise BadInput(
                f"packages {by_owner[schema.owner].package} and {schema.package} both have tables "
                f"of the owner {schema.owner!r}. Rename one."
            )
    ordered: dict[str, Schema] = {}

    def add(schema: Schema, above: tuple[str, ...]) -> None:
        if schema.owner in above:
            raise BadInput(f"schemas require each other: {' → '.join((*above, schema.owner))}.")
        for owner in schema.requires:
            if owner in by_owner:
                add(by_owner[owner], (*above, schema.owner))
        ordered[schema.owner] = schema

    for schema in by_owner.values():
        add(schema, ())
    return list(ordered.values())


def installed_schemas() -> list[Schema]:
    """Return the schemas of the applications that are installed, by their entry points."""
    from importlib.metadata import entry_points  # takes 10 ms, and only a migration needs it

    found = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            schema = entry.load()
        except Exception as error:
            raise StoreError(
                f"the installed schema {entry.name!r} ({entry.value}) cannot be loaded: {error}. "
                f"Repair or uninstall its package."
            ) from error
        if not isinstance(schema, Schema):
            raise StoreError(f"the entry point {entry.name!r} ({entry.value}) is no inturn.Schema.")
        found.append(schema)
    return found


# Versions


class Version(NamedTuple):
    """How far an owner's tables in a store are; 0 when there are none."""

    number: int = 0
    oldest: int = 0
    """The oldest version of programs that still work on them."""


def versions(rows: Iterable[tuple[str, int, int]]) -> dict[str, Version]:
    """Return each owner's version, from all rows of the table: owner, version, oldest."""
    found: dict[str, Version] = {}
    for owner, number, oldest in rows:
        known = found.get(owner, Version())
        found[owner] = Version(max(known.number, number), max(known.oldest, oldest))
    return found


def missing_migrations(
    owner: str, found: Mapping[str, Version], migrations: list[Migration]
) -> list[Migration]:
    """Return what has yet to be applied. Refuses tables on which this program cannot work."""
    check_not_too_new(owner, found, migrations)
    return migrations[found.get(owner, Version()).number :]


def check_not_too_new(
    owner: str, found: Mapping[str, Version], migrations: list[Migration]
) -> None:
    """Refuse tables that are newer than this program knows, unless it still works on them."""
    there, known = found.get(owner, Version()), len(migrations)
    if there.number > known and there.oldest > known:
        raise SchemaTooNew(there.number, known, owner)


def migration_failed(owner: str, migration: Migration, error: Exception) -> BadInput:
    """Return the error for a migration whose SQL the database refuses."""
    return BadInput(
        f"migration {migration.number:04} of {owner} cannot be applied: {error}. Nothing was "
        f"changed."
    )


def check_required(schema: Schema, found: Mapping[str, Version]) -> None:
    """Refuse to make tables before those they require."""
    if missing := [owner for owner in schema.requires if owner not in found]:
        raise SchemaMissing(
            f"the tables of {schema.owner} need those of {' and '.join(missing)} first, which are "
            f"not in this store."
        )


def check_version(
    schema: Schema, found: Mapping[str, Version], migrations: list[Migration], *, url: str = ""
) -> None:
    """Refuse an application's tables that are missing, older, or too new."""
    check_not_too_new(schema.owner, found, migrations)
    there, known = found.get(schema.owner, Version()), len(migrations)
    if there.number < known:
        state = f"version {there.number} of" if there.number else "no"
        command = ["inturn store migrate"]
        command += [] if schema in installed_schemas() else ["-A MODULE:APP"]
        command += [f"--store {url}"] if url else []
        raise SchemaMissing(
            f"{url or 'the database'} has {state} tables of {schema.owner}; this program needs "
            f"version {known}. Run `{' '.join(command)}`, or call app.migrate()."
        )
