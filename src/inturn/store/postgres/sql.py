"""The SQL files of this store, read once, by name; and where the functions of this version are.

Each version's functions are in a PostgreSQL schema of their own, so that programs of several
versions work on one database. In files and in code a function is called ``inturn.claim(``: a name
with its bracket right behind it, where a table's has a space. Where a function says
``set plans = by_index``, its plans look rows up by index, and are made once a session: tables that
are empty when that happens would have the planner walk them ever after. ``whole_job`` stands for a
job's columns wherever it is kept whole.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources

_home = resources.files(__package__)

_COMMENT = re.compile(r"('(?:[^']|'')*')|--[^\n]*")
_BY_INDEX = " ".join(
    ["set plan_cache_mode = force_generic_plan"]
    + [f"set enable_{way} = off" for way in ("seqscan", "hashjoin", "mergejoin", "bitmapscan")]
)
_WHOLE_JOB = (
    "id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds, enqueued_at"
)
_CALLED = re.compile(r"\binturn\.(?=\w+\()")


def _functions_text() -> str:
    files = sorted((_home / "functions").iterdir(), key=lambda file: file.name)
    texts = [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".sql")]
    text = _COMMENT.sub(lambda found: found[1] or "", "\n".join(texts))
    return text.replace("set plans = by_index", _BY_INDEX).replace("whole_job", _WHOLE_JOB)


_FUNCTIONS_TEXT = _functions_text()
FUNCTIONS = f"inturn_functions_{hashlib.sha256(_FUNCTIONS_TEXT.encode()).hexdigest()[:8]}"
"""The schema with the functions of this version, named for what they say, comments left out."""


@cache
def called(text: str) -> str:
    """Return SQL in which each function that it calls is this version's."""
    return _CALLED.sub(f"{FUNCTIONS}.", text)


def functions() -> str:
    """Return the text that makes the functions of this version."""
    return called(_FUNCTIONS_TEXT)


@cache
def query(name: str) -> str:
    """Return the text of ``queries/<name>.sql``."""
    return called((_home / "queries" / f"{name}.sql").read_text(encoding="utf-8"))
