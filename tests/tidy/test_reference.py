"""The reference names what there is, with the defaults that it has, and each check can fail."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import inturn
from inturn.cli.pyproject import Table, WorkTable
from inturn.cli.settings import VARIABLE
from inturn.model import bounds, worker_events
from inturn.model.duration import parse_duration
from tests.cli.test_commands import COMMANDS

ROOT = Path(__file__).parents[2]
REFERENCE = "".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/reference").glob("*.md"))
)

# Defaults that stand in the reference in words.
IN_WORDS: dict[str, object] = {
    "a day": bounds.RESULT_SECONDS_DEFAULT,
    "none": None,
    "the function's name": None,
    "those of the app's jobs": None,
    "host, process and a random part": None,
    "as many as shards": 0,
    "what all shards hold": 0,
    "`RetryPolicy()`": None,
}


def section(page: str, heading: str) -> str:
    """Return what stands under a heading of a page of the reference."""
    text = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    level = heading.split()[0]
    body = text.partition(f"\n{heading}\n")[2]
    assert body, f"{page} has no heading {heading!r}"
    return re.split(rf"^#{{1,{len(level)}}} ", body, flags=re.MULTILINE)[0]


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables in a text, whose first cell is code."""
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def wrong_defaults(told: Mapping[str, str], known: Mapping[str, object]) -> Iterator[str]:
    """Say which names are left out or made up, and which have another default."""
    yield from (f"{name} is left out" for name in sorted(set(known) - set(told)))
    yield from (f"{name} is made up" for name in sorted(set(told) - set(known)))
    for name in set(told) & set(known):
        if not _says(told[name], known[name]):
            yield f"{name} is said to be {told[name]} and is {known[name]!r}"


def _says(said: str, value: object) -> bool:
    if said in IN_WORDS:
        return IN_WORDS[said] == value or (said == "none" and value == ())
    plain = said.strip("`").replace(",", "").strip('"')
    if plain == str(value):
        return True
    try:
        number = float(plain) if plain[-1].isdigit() else parse_duration(plain)
    except ValueError:
        return False
    return number == value


def defaults_of(function: Callable[..., Any], *left_out: str) -> dict[str, object]:
    """Return the defaults of a function's parameters, but for those left out."""
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.name not in ("self", *left_out)}


def first_and_default(table: str, default: int) -> dict[str, str]:
    return {row[0].strip("`"): row[default] for row in rows(table)}


def work_rows() -> dict[str, list[str]]:
    """Return the rows of the options of ``inturn work``, each by its first name."""
    return {
        row[0].split(",")[0].strip("`"): row for row in rows(section("cli.md", "### `inturn work`"))
    }


@pytest.mark.parametrize("name", inturn.__all__)
def test_a_public_name_explains_itself_and_is_in_the_reference(name: str) -> None:
    found = getattr(inturn, name)
    own = found.__dict__.get("__doc__") or ""
    assert own.strip()
    assert not own.startswith(f"{name}("), "made by dataclasses, not written"
    assert re.search(rf"`(inturn\.)?{name}\b", REFERENCE)


def test_the_defaults_of_a_job_are_as_the_reference_says() -> None:
    known = defaults_of(inturn.App.job, "function")
    assert known["attempts"] is None  # what the policy says
    known["attempts"] = inturn.RetryPolicy().attempts_max
    told = first_and_default(section("app.md", "### `job`"), 1)
    assert not list(wrong_defaults(told, known))


def test_the_options_of_using_are_as_the_reference_says() -> None:
    named = {
        name
        for row in rows(section("app.md", "### `using`"))
        for name in re.findall(r"\w+", row[0])
    }
    assert named == set(defaults_of(inturn.Job.using))


def test_the_defaults_of_a_worker_are_as_the_reference_says() -> None:
    known = defaults_of(inturn.Worker.__init__, "app")
    told = first_and_default(section("app.md", "## `inturn.Worker`"), 1)
    assert not list(wrong_defaults(told, known))


def test_the_settings_of_an_executor_are_as_the_reference_says() -> None:
    table = section("executor.md", "## Settings")
    known = {
        name: one.default for name, one in inturn.ExecutorSettings.__dataclass_fields__.items()
    }
    assert not list(wrong_defaults(first_and_default(table, 2), known))
    for name, variable, *_ in rows(table):
        assert variable.strip("`") == f"SQ_{name.strip('`').upper()}"


def test_the_options_of_work_are_as_the_reference_says() -> None:
    told = work_rows()
    for parameter in COMMANDS["work"].params:
        name = parameter.opts[0] if parameter.opts[0].startswith("--") else parameter.metavar
        if name in ("--store", "--json", "--debug"):
            continue
        _, variable, meaning = told.pop(name)
        assert variable.strip("`") == (parameter.envvar or "")
        said = re.search(r" \((\S+)\)$", meaning)
        default = None if getattr(parameter, "is_flag", False) else parameter.default
        if isinstance(parameter.show_default, str):
            assert parse_duration(parameter.show_default) == default
            default = parameter.show_default
        assert (said[1] if said else None) == (None if default is None else str(default)), name
    assert told == {}


def test_the_keys_of_pyproject_are_as_the_reference_says() -> None:
    text = section("cli.md", "### `inturn work`")
    listed = re.search(r"Its keys are (.+?)\.$", text, re.MULTILINE)
    assert listed is not None
    keys = [field.encode_name for field in msgspec.structs.fields(WorkTable)]
    assert re.findall(r"`([\w-]+)`", listed[1]) == keys
    assert [field.encode_name for field in msgspec.structs.fields(Table)] == ["store", "work"]
    for stated in ("[tool.inturn]\n    store = ", "[tool.inturn.work]\n", f"`{VARIABLE}`"):
        assert stated in REFERENCE


def kinds_of(event: type[Any]) -> set[type[Any]]:
    """The classes under a class that have none under them."""
    below = event.__subclasses__()
    return set().union(*map(kinds_of, below)) if below else {event}


def test_the_events_of_a_worker_are_those_that_the_guide_lists() -> None:
    text = (ROOT / "docs/guides/deploying.md").read_text(encoding="utf-8")
    listed = re.search(r"The events are (.+?), the last with", text, re.DOTALL)
    assert listed is not None
    tags = {one.__struct_config__.tag for one in kinds_of(worker_events.WorkerEvent)}
    assert set(re.findall(r"`(\w+)`", listed[1])) == tags


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ({}, {"slots": 4}),
        ({"slots": "4", "slot": "4"}, {"slots": 4}),
        ({"slots": "5"}, {"slots": 4}),
        ({"lease": "`20s`"}, {"lease": 30.0}),
        ({"queue": '`"mail"`'}, {"queue": "default"}),
        ({"keep": "a day"}, {"keep": 3_600.0}),
        ({"keep": "some time"}, {"keep": 3_600.0}),
        ({"timeout": "none"}, {"timeout": 60}),
    ],
)
def test_a_reference_that_falls_behind_is_caught(
    told: dict[str, str], known: dict[str, object]
) -> None:
    assert list(wrong_defaults(told, known))
