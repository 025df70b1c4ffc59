"""One named SQL file per query, read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """Return the text of a query, without the comment that opens its file."""
    text = files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).strip()
