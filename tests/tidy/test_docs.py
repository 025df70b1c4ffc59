"""The documentation keeps up with the code, and each check of it can fail."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from inturn.model import errors
from inturn.testing import DrainTimeout

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
POSTGRES = ROOT / "src/inturn/store/postgres"

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|^ {4}[^\n]*$", re.DOTALL | re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def error_names() -> set[str]:
    found = inspect.getmembers(errors, inspect.isclass)
    names = {name for name, one in found if issubclass(one, errors.InturnError)}
    return names | {DrainTimeout.__name__}


def table_names() -> set[str]:
    statements = "".join(path.read_text(encoding="utf-8") for path in _sql("migrations"))
    return set(re.findall(r"create table inturn\.(\w+)", statements))


def sql_states() -> set[str]:
    statements = "".join(path.read_text(encoding="utf-8") for path in _sql("functions"))
    return set(re.findall(r"\bIT\d{3}\b", statements))


def names_of_tests() -> set[str]:
    paths = (ROOT / "tests").rglob("test_*.py")
    return {
        name
        for path in paths
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }


def _sql(folder: str) -> list[Path]:
    return sorted((POSTGRES / folder).glob("*.sql"))


def names_are_mentioned(text: str, names: Collection[str]) -> Iterator[str]:
    """Every name stands somewhere in the text, as code."""
    quoted = set(re.findall(r"`(?:\w+\.)?(\w+)`", text))
    yield from (f"{name} is not mentioned" for name in sorted(set(names) - quoted))


def rows_are_errors(text: str, names: Collection[str]) -> Iterator[str]:
    """Every error has a row in the table, and every row is an error."""
    rows = set(re.findall(r"^\| \**`(\w+)`\** \|", text, re.MULTILINE))
    yield from (f"{name} has no row" for name in sorted(set(names) - rows))
    yield from (f"{name} has a row and is no error" for name in sorted(rows - set(names)))


def rows_are_states(text: str, states: Collection[str]) -> Iterator[str]:
    """Every SQLSTATE of ours has a row, and every row of ours is one."""
    rows = set(re.findall(r"^\| `(IT\d{3})` \|", text, re.MULTILINE))
    yield from (f"{state} has no row" for state in sorted(set(states) - rows))
    yield from (f"{state} has a row and is never raised" for state in sorted(rows - set(states)))


def links_lead_somewhere(path: Path) -> Iterator[str]:
    """Every link to a file, and to a heading in it, finds it."""
    for target in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = path.parent / name if name else path
        if not linked.exists():
            yield f"{path.name} links to {target}, which is not there"
        elif anchor and anchor not in anchors(linked.read_text(encoding="utf-8")):
            yield f"{path.name} links to {target}, which has no such heading"


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
        for heading in HEADING.findall(CODE.sub("", text))
    }


def cited_tests_exist(text: str, root: Path) -> Iterator[str]:
    """Every file, folder or name of a test that a page cites is there."""
    for cited in re.findall(r"`((?:\w+/)+test_\w+\.py|tests/\w+)`", text):
        if not any((root / place / cited).exists() for place in ("", "tests")):
            yield f"{cited} is cited and is not there"
    known = names_of_tests()
    for cited in re.findall(r"`(test_\w+)`", text):
        if cited not in known:
            yield f"{cited} is cited and is no test"


def test_every_table_is_described() -> None:
    text = page("ARCHITECTURE.md") + page("docs/explain/engine.md")
    assert not list(names_are_mentioned(text, table_names()))


def test_every_promise_is_cited_by_the_tests_that_prove_it() -> None:
    text = page("ARCHITECTURE.md")
    rows = re.findall(r"^\| \*\*([PE]\d+)\*\* .*\| ([^|]+) \|$", text, re.MULTILINE)
    assert len(rows) >= 18 + 6
    for promise, named in rows:
        names = re.findall(r"`(?:tests/)?([\w/]+(?:\.py)?)`", named)
        assert names, f"{promise} names no test"
        for name in names:
            path = ROOT / "tests" / name
            files = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
            cited = [re.search(rf"\b{promise}\b", file.read_text("utf-8")) for file in files]
            assert any(cited), f"{name} does not say that it proves {promise}"


def test_every_error_is_described() -> None:
    assert not list(rows_are_errors(page("docs/reference/errors.md"), error_names()))


def test_every_sqlstate_is_described() -> None:
    assert not list(rows_are_states(page("docs/reference/sql.md"), sql_states()))


def test_every_argument_of_the_sql_function_is_described() -> None:
    [path] = POSTGRES.glob("functions/enqueue.sql")
    source = path.read_text(encoding="utf-8")
    declared = source.partition("inturn.enqueue(\n")[2].partition(") returns")[0]
    arguments = re.findall(r"(\w+) (?:text|json|integer|double|uuid|timestamptz)", declared)
    assert len(arguments) > 10
    assert not list(names_are_mentioned(page("docs/reference/sql.md"), arguments))


def test_every_decision_is_listed() -> None:
    listed = set(LINK.findall(page("docs/decisions/README.md")))
    assert {path.name for path in (ROOT / "docs/decisions").glob("0*.md")} <= listed


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_cites_what_is_there(path: Path) -> None:
    assert not list(links_lead_somewhere(path))
    assert not list(cited_tests_exist(path.read_text(encoding="utf-8"), ROOT))


@pytest.mark.parametrize(
    ("check", "text", "names"),
    [
        (names_are_mentioned, "the tables `lane` and `tail`, and job", ["lane", "tail", "job"]),
        (rows_are_errors, "| `LeaseLost` | gone |\n", ["LeaseLost", "QueueFull"]),
        (rows_are_states, "| `IT001` |\n| `IT009` |\n", ["IT001"]),
    ],
)
def test_a_page_that_falls_behind_is_caught(
    check: Callable[[str, Collection[str]], Iterator[str]], text: str, names: list[str]
) -> None:
    assert list(check(text, names))


@pytest.mark.parametrize("text", ["[gone](../gone/README.md)", "# There\n[nearly](#There)"])
def test_a_link_that_leads_nowhere_is_caught(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text(text, encoding="utf-8")
    assert list(links_lead_somewhere(tmp_path / "bad.md"))


@pytest.mark.parametrize("text", ["`contract/test_gone.py`", "`test_that_is_gone`"])
def test_a_cited_test_that_is_gone_is_caught(text: str) -> None:
    assert list(cited_tests_exist(text, ROOT))
