"""Write the reference pages that come from the program itself: ``python docs/generate.py``."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import msgspec
from typer.main import get_command
from typer.testing import CliRunner

import inturn
from inturn.cli.main import app
from inturn.groups.group import GroupResult
from inturn.groups.groups import Groups
from inturn.groups.model import GroupView, StepView
from inturn.http import Client
from inturn.poll.extension import Schedules
from inturn.poll.source import Source
from inturn.queue.transaction import JobTransaction
from inturn.store.change import Change
from inturn.store.store import Store
from inturn.store.transaction import Transaction
from inturn.testing import HandClock, Sandbox

REFERENCE = Path(__file__).parent / "reference"

CLI = """# The command

Every command says which store it is for with `--app MODULE:APP` (or the variable `INTURN_APP`):
the store of that App; or with `--store URL` (or `INTURN_STORE`), which comes first if both are
given. `--json` prints one document, whose fields [do not change](json.md). These are not repeated
below. Jobs are named by the last 8 characters of their id, as the lists show them, or by the whole
id.

| exit code | |
|---|---|
| 0 | done |
| 1 | no such thing, too late, or a check found a problem |
| 2 | the command line, a payload or a setting is wrong |
| 3 | the store cannot be used |
| 4 | the queue is full or the store busy: the same command may succeed later |
"""
SHARED = re.compile(
    r"^  (-A, --app|--store|--json +Print JSON|-h, --help).*\n( {10}.*\n)*", re.MULTILINE
)
API = """# API

What `inturn` exports, and the store behind it (`await app.run(lambda store: store.queues())`).
Errors have [a page of their own](errors.md). This page is generated from the docstrings.
"""
CLASSES: tuple[tuple[str, type], ...] = (
    ("inturn.App", inturn.App),
    ("inturn.Job", inturn.Job),
    ("inturn.Ticket", inturn.Ticket),
    ("inturn.Context", inturn.Context),
    ("JobTransaction", JobTransaction),
    ("inturn.Retry", inturn.Retry),
    ("inturn.Bury", inturn.Bury),
    ("inturn.RetryPolicy", inturn.RetryPolicy),
    ("inturn.Reject", inturn.Reject),
    ("inturn.RetryLater", inturn.RetryLater),
    ("inturn.Worker", inturn.Worker),
    ("inturn.Executor", inturn.Executor),
    ("inturn.ExecutorSettings", inturn.ExecutorSettings),
    ("inturn.DurableExecutor", inturn.DurableExecutor),
    ("inturn.Group", inturn.Group),
    ("inturn.GroupResult", GroupResult),
    ("app.groups", Groups),
    ("GroupView", GroupView),
    ("StepView", StepView),
    ("inturn.Effect", inturn.Effect),
    ("app.schedules", Schedules),
    ("app.sources[name]", Source),
    ("inturn.Page", inturn.Page),
    ("inturn.Change", inturn.Change),
    ("inturn.http.Client", Client),
    ("inturn.testing.Sandbox", Sandbox),
    ("inturn.testing.HandClock", HandClock),
    ("inturn.Schema", inturn.Schema),
    ("inturn.Query", inturn.Query),
    ("Store", Store),
    ("Transaction", Transaction),
    ("inturn.store.change.Change", Change),
)


def cli_page() -> str:
    """Return the page about the command: the help of each part of it."""
    parts = [CLI]
    for path in _paths(get_command(app)):
        shown = CliRunner(env={"TERMINAL_WIDTH": "80", "COLUMNS": "80"}).invoke(
            app, [*path.split(), "--help"], prog_name="inturn"
        )
        assert shown.exit_code == 0, shown.output
        text = SHARED.sub("", shown.output).replace("Options:\n\n", "").strip()
        parts.append(f"## `inturn {path}`\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def api_page() -> str:
    """Return the page about the classes: signatures and docstrings."""
    parts = [API]
    for name, found in CLASSES:
        parts.append(f"## `{name}`\n\n{_prose(found)}")
        if _has_own_init(found):
            parts.append(f"```python\n{name.split('.')[-1]}{_signature(found)}\n```\n")
        for verb, member in _members(found):
            call = "" if isinstance(member, property) else _signature(member)
            prefix = "async " if inspect.iscoroutinefunction(member) else ""
            parts.append(f"### `{name.split('.')[-1]}.{verb}`\n")
            if call:
                parts.append(f"```python\n{prefix}{verb}{call}\n```\n")
            parts.append(_prose(member))
    return "\n".join(part for part in parts if part)


def _members(found: type) -> list[tuple[str, object]]:
    """Return what is public and described: of the class, then of those above it."""
    members: dict[str, object] = {}
    for one in found.__mro__:
        for name, member in vars(one).items():
            if one.__module__.startswith("inturn") and not name.startswith("_"):
                members.setdefault(name, member)
    return [
        (name, getattr(member, "__func__", member))
        for name, member in members.items()
        if isinstance(member, property) or inspect.isfunction(getattr(member, "__func__", member))
        if inspect.getdoc(member)
    ]


def _has_own_init(found: type) -> bool:
    is_struct = issubclass(found, msgspec.Struct) and bool(found.__struct_fields__)
    return dataclasses.is_dataclass(found) or is_struct or "__init__" in vars(found)


def _signature(found: object) -> str:
    """Return a signature without `self`, a parameter a line if it is long."""
    signature = inspect.signature(found)  # type: ignore[arg-type]
    kept = [one for name, one in signature.parameters.items() if name not in ("self", "cls")]
    text = str(signature.replace(parameters=kept)).replace("typing.", "").replace("~", "")
    text = re.sub(r"<[^\n]*? at 0x[0-9a-f]+>|<factory>", "...", text)
    text = re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", text)
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+(\w+)", r"\1", text).removesuffix(" -> None")
    if len(text) <= 80 or len(kept) < 2:
        return text
    inner, _, result = text[1:].rpartition(")")
    return "(\n" + textwrap.indent(",\n".join(_split(inner)), "    ") + f",\n){result}"


def _split(text: str) -> list[str]:
    """Split parameters at the commas that are not inside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[({") - (char in "])}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _prose(found: object) -> str:
    """Return a docstring as Markdown."""
    text = inspect.getdoc(found) or ""
    return text.replace("``", "`") + "\n"


def _paths(command: Any, path: str = "") -> list[str]:
    """Return the commands that do something, in the order of the help."""
    if not hasattr(command, "commands"):
        return [path]
    return [
        one
        for name in command.list_commands(None)
        for one in _paths(command.get_command(None, name), f"{path} {name}".strip())
    ]


if __name__ == "__main__":
    (REFERENCE / "cli.md").write_text(cli_page(), encoding="utf-8")
    (REFERENCE / "api.md").write_text(api_page(), encoding="utf-8")
