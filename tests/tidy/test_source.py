"""The source keeps its own rules, and each check of a rule can fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePath

import pytest

Check = Callable[[PurePath, str], Iterator[str]]

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 80
LINE_LENGTH_MAX = 100


UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
UNPUBLISHED = re.compile(r"pip install (-\S+ )*['\"]?inturn\b")
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(work|root|home)/")

ROOT = Path(__file__).parents[2]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
QUERIES = sorted((ROOT / "src").rglob("*.sql"))
PYTHON = sorted(
    path
    for directory in ("src", "tests", "bench", "examples")
    for path in (ROOT / directory).rglob("*.py")
    if path != Path(__file__)  # which has to spell what it looks for
)
WRITTEN = sorted(
    path
    for pattern in ("*.md", "*.toml", "*.txt", "Makefile", ".ci/*", "docs/**/*.md")
    for path in ROOT.glob(pattern)
)


def opens_with_a_docstring(path: PurePath, text: str) -> Iterator[str]:
    if not ast.get_docstring(ast.parse(text)):
        yield f"{path}: does not open with a docstring"


def file_is_short(path: PurePath, text: str) -> Iterator[str]:
    if (lines := len(text.splitlines())) > FILE_LINES_MAX:
        yield f"{path}: has {lines} lines, and {FILE_LINES_MAX} is the most"


def functions_are_short(path: PurePath, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {lines} lines, "
                    f"and {FUNCTION_LINES_MAX} is the most"
                )


def lines_are_short(path: PurePath, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > LINE_LENGTH_MAX:
            yield f"{path}:{number}: is {len(line)} characters long"


def is_finished(path: PurePath, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if match := UNFINISHED.search(line):
            yield f"{path}:{number}: has a {match[0]}"


def sql_opens_with_a_comment(path: PurePath, text: str) -> Iterator[str]:
    if not re.match(r"--[ \t]*\w", text):
        yield f"{path}: does not open with a comment that says what it is for"


def names_no_machine_path(path: PurePath, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if match := MACHINE_PATH.search(line):
            yield f"{path}:{number}: names a path of someone's machine, {match[0]}…"


def installs_from_the_source(path: PurePath, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if match := UNPUBLISHED.search(line):
            yield f"{path}:{number}: has {match[0]!r}, and inturn is on no index yet"


def complaints(check: Check, paths: list[Path]) -> list[str]:
    return [
        complaint
        for path in paths
        for complaint in check(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(
    ("check", "paths"),
    [
        pytest.param(opens_with_a_docstring, SOURCE, id="modules-open-with-a-docstring"),
        pytest.param(file_is_short, SOURCE + QUERIES, id="files-are-short"),
        pytest.param(functions_are_short, SOURCE, id="functions-are-short"),
        pytest.param(lines_are_short, PYTHON + QUERIES, id="lines-are-short"),
        pytest.param(is_finished, PYTHON + QUERIES, id="nothing-is-left-unfinished"),
        pytest.param(sql_opens_with_a_comment, QUERIES, id="queries-open-with-a-comment"),
        pytest.param(
            names_no_machine_path,
            PYTHON + QUERIES + WRITTEN,
            id="no-path-of-a-machine-is-named",
        ),
        pytest.param(
            installs_from_the_source, SOURCE + WRITTEN, id="it-is-installed-from-the-source"
        ),
    ],
)
def test_the_source_keeps_the_rule(check: Check, paths: list[Path]) -> None:
    assert paths
    found = complaints(check, paths)
    assert not found, "\n".join(found)


def gone_tests(durations: str, tests: Collection[str]) -> list[str]:
    named = [line.split()[1] for line in durations.splitlines()]
    return [name for name in named if name not in tests]


def test_what_is_measured_is_there() -> None:
    tests = {
        f"{path.relative_to(ROOT).as_posix()}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    durations = (ROOT / "tests/durations.txt").read_text(encoding="utf-8")
    assert gone_tests(durations, tests) == [], "take their lines out"
    assert gone_tests("0.5 tests/a.py::test_gone\n", tests)


@pytest.mark.parametrize(
    ("check", "name", "text"),
    [
        (opens_with_a_docstring, "lane.py", "import this\n"),
        (file_is_short, "lane.py", "x = 1\n" * 501),
        (functions_are_short, "lane.py", "async def f():\n" + "    x = 1\n" * 80),
        (lines_are_short, "lane.py", "#" * 101),
        (is_finished, "lane.py", "x = 1  # TODO: two"),
        (sql_opens_with_a_comment, "claim.sql", "select 1; -- Claim jobs.\n"),
        (names_no_machine_path, "lane.py", 'open("/root/x")'),
        (installs_from_the_source, "README.md", "    pip install 'inturn[postgres]'"),
    ],
)
def test_a_check_catches_what_it_is_for(check: Check, name: str, text: str) -> None:
    assert list(check(PurePath(name), text))
