"""The SQL files of this store, read once, by name."""

from __future__ import annotations

from functools import cache
from importlib import resources

_home = resources.files(__package__)


@cache
def query(name: str) -> str:
    """Return the text of ``queries/<name>.sql``."""
    return (_home / "queries" / f"{name}.sql").read_text(encoding="utf-8")


def folder(name: str) -> list[tuple[str, str]]:
    """Return the files of a folder in the order of their names, as (name, text)."""
    files = sorted((_home / name).iterdir(), key=lambda file: file.name)
    return [
        (file.name, file.read_text(encoding="utf-8"))
        for file in files
        if file.name.endswith(".sql")
    ]
