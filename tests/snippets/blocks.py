"""The blocks of code in a page: fenced or indented, each with its language and where it stands."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"```(\w*)$")
SAVED = re.compile(r"\bas `([\w/]+\.py)`:$", re.IGNORECASE)  # "Save this as `shop.py`:"

# What an indented block begins with, where it is not Python.
BEGINNINGS = {
    "console": r"\$ |(inturn|python3?|pip|make|export|source|test|sqlite3|\.venv/\S+) ",
    "ini": r"\[Unit\]",
    "toml": r"\[[\w.]+\]$",
    "json": r"\{",
    "sql": r"(select|grant|alter|insert|create) ",
    "url": r"\w+://",
}


@dataclass(frozen=True)
class Block:
    """Some code in a page."""

    page: str
    line: int
    language: str
    text: str
    saved_as: str | None

    @property
    def first(self) -> str:
        return self.text.splitlines()[0]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(path: Path, root: Path) -> list[Block]:
    """Return the blocks of a page, in their order."""
    page = path.relative_to(root).as_posix()
    found = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for first, language, code in _runs(lines):
        text = textwrap.dedent("\n".join(code)).strip("\n") + "\n"
        above = [line for line in lines[:first] if line and not FENCE.match(line.strip())]
        saved = SAVED.search(above[-1]) if above else None
        named = language or _language(text)
        found.append(Block(page, first + 1, named, text, saved[1] if saved else None))
    return found


def _runs(lines: list[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield each block's first line, the language of its fence, and its lines."""
    number = 0
    while number < len(lines):
        if fence := FENCE.match(lines[number].strip()):
            end = number + 1
            while lines[end].strip() != "```":
                end += 1
            yield number + 1, fence[1], lines[number + 1 : end]
            number = end + 1
        elif lines[number].startswith("    ") and not (number and lines[number - 1].strip()):
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield number, "", lines[number:end]
            number = end
        else:
            number += 1


def _language(text: str) -> str:
    for language, beginning in BEGINNINGS.items():
        if re.match(beginning, text.splitlines()[0]):
            return language
    return "python"
