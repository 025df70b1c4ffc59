"""Each requirement names a test that is there and says its number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "requirements.md").read_text(encoding="utf-8")
LINE = re.compile(r"^- ((?:\d{3}|B)-\d{2}) .+: (open|`\S+::test_\w+`(?:, `\S+::test_\w+`)*)$")
TOLD = re.compile(r"\b(?:\d{3}|B)-\d{2}\b")


def said_by_tests() -> dict[str, str]:
    """Return what each test says of itself, by `file.py::test`."""
    return {
        f"{path.relative_to(TESTS).as_posix()}::{node.name}": ast.get_docstring(node) or ""
        for path in sorted(TESTS.rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def faults(page: str, tests: dict[str, str]) -> Iterator[str]:
    listed = set()
    for line in filter(lambda line: line.startswith("- "), page.splitlines()):
        if not (found := LINE.match(line)):
            yield f"not a number, a text, and its test or open: {line}"
            continue
        if found[1] in listed:
            yield f"{found[1]} has two lines"
        listed.add(found[1])
        for name in re.findall(r"`(\S+)`", found[2]):
            if name not in tests:
                yield f"{found[1]} names {name}, which is not there"
            elif found[1] not in tests[name]:
                yield f"{name} does not say that it proves {found[1]}"
    for name, said in tests.items():
        for number in re.findall(rf"\(({TOLD.pattern}(?:, {TOLD.pattern})*)\)", said):
            for told in set(number.split(", ")) - listed:
                yield f"{name} says {told}, which is no requirement"


def test_every_requirement_names_its_test_or_is_open() -> None:
    assert not list(faults(PAGE, said_by_tests()))


def test_a_requirement_without_its_test_is_caught() -> None:
    tests = {"a/test_a.py::test_a": "True. (001-01)", "a/test_a.py::test_b": "Also true."}
    assert not list(faults("- 001-01 a: `a/test_a.py::test_a`\n- 001-02 b: open", tests))
    for page in ("- 001-01 a: `a/test_a.py::test_b`", "- 001-01 a: `a/test_a.py::test_c`", "- a"):
        assert list(faults(page, tests))
    assert list(faults("- 001-02 b: open", tests))
    assert list(faults("- 001-01 a: open\n- 001-01 a: `a/test_a.py::test_a`", tests))
