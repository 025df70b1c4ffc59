"""The numbers of what must be proven stand in the names of the tests, where ``-k 001_05`` looks."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
IN_A_NAME = re.compile(r"(?<=_)\d{3}_\d{2}(?=_)")
OPENING = re.compile(r"\W*(?:ACCEPTANCE )?((?:\d{3}-\d{2}[\s,;and]*)+)")

NOT_ASKED = frozenset(
    {
        "001_07",  # not given
        "001_18",  # of a poller, which is not here yet
        "001_19",
        "004_24",  # not given
    }
)
ASKED = [
    number
    for number in (
        *(f"001_{n:02}" for n in range(1, 25)),
        "003_10",
        "003_11",
        *(f"004_{n:02}" for n in range(1, 26)),
    )
    if number not in NOT_ASKED
]


def found_in(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the tests of a file."""
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test_"):
                yield node


def numbers_not_found(names: Collection[str], asked: Collection[str]) -> list[str]:
    """Return the numbers that stand in no test's name."""
    return sorted({*asked}.difference(*(IN_A_NAME.findall(name) for name in names)))


def numbers_told_and_not_named(source: str) -> Iterator[str]:
    """A test whose docstring opens with numbers has them in its name."""
    for test in found_in(source):
        if told := OPENING.match(ast.get_docstring(test) or ""):
            for number in re.findall(r"\d{3}-\d{2}", told[1]):
                if number.replace("-", "_") not in IN_A_NAME.findall(test.name):
                    yield f"{test.name} proves {number} and is not named for it"


def test_every_number_is_found_by_the_name_of_a_test() -> None:
    names = [test.name for path in TESTS for test in found_in(path.read_text(encoding="utf-8"))]
    assert numbers_not_found(names, ASKED) == []


def test_a_test_that_says_which_number_it_proves_is_named_for_it() -> None:
    sources = [path.read_text(encoding="utf-8") for path in TESTS]
    assert [told for source in sources for told in numbers_told_and_not_named(source)] == []


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["test_001_04_a_job"],
        ["test_001_050_jobs"],
        ["test_a_lease_of_1001_05"],
        ["test_0_01_05"],
    ],
)
def test_a_number_that_no_name_has_is_caught(names: list[str]) -> None:
    assert numbers_not_found(names, ["001_05"]) == ["001_05"]


def test_several_numbers_in_one_name_are_found() -> None:
    assert numbers_not_found(["test_001_03_001_23_a_job"], ["001_03", "001_23"]) == []


@pytest.mark.parametrize(
    "opening",
    ["ACCEPTANCE 001-05: nothing.", "001-05.", "001-04, 001-05: nothing.", "(001-05) nothing."],
)
def test_a_number_that_only_a_docstring_tells_is_caught(opening: str) -> None:
    source = f'async def test_001_04_a_job():\n    """{opening}"""\n'
    [told] = numbers_told_and_not_named(source)
    assert "001-05" in told


@pytest.mark.parametrize(
    "source",
    [
        'def test_001_05_a_job():\n    """001-05: nothing."""\n',
        'def test_a_job():\n    """Another test proves it (001-05)."""\n',
        "def test_a_job(): ...\n",
    ],
    ids=["named", "elsewhere", "none"],  # and not a name that -k would find
)
def test_a_docstring_that_tells_no_other_number_is_fine(source: str) -> None:
    assert list(numbers_told_and_not_named(source)) == []
