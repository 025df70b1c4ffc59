"""Every example runs as it stands, and what the README shows is one of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHOWN = ("payments.py", "executor.py")  # in the README, in this order
PRINTED = {
    "durable.py": "ann [0, 1, 2, 3, 4]\n",
    "engine.py": (
        'order {"number":1}, attempt 1\norder {"number":2}, attempt 1\nmail null, attempt 1\n'
    ),
    "executor.py": "bob [1, 2, 3]\neve 3 writes\nann [1, 2, 3]\n",
    "payments.py": "4 payments are accepted\n",
    "testing.py": "dear ann, your basket waits\n",
}


def run(source: Path, folder: Path) -> str:
    """Run a program in an empty folder and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(source)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a language in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_there_are_examples() -> None:
    assert [example.name for example in EXAMPLES] == list(PRINTED)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_as_it_stands(example: Path, tmp_path: Path) -> None:
    assert run(example, tmp_path) == PRINTED[example.name]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_without_what_only_postgresql_needs(example: Path, tmp_path: Path) -> None:
    source = tmp_path / "without.py"
    source.write_text(
        "import runpy, sys\n"
        "sys.modules['asyncpg'] = None\n"
        f"runpy.run_path({str(example)!r}, run_name='__main__')\n"
    )
    assert run(source, tmp_path) == PRINTED[example.name]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_may_be_run_again(example: Path, tmp_path: Path) -> None:
    assert run(example, tmp_path) == run(example, tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("durable.py", "range(3)", "(0, 2, 1)"),
        ("engine.py", "[mail, first, second]", "[mail, second, first]"),
        ("executor.py", "range(1, 4)", "(1, 3, 2)"),
        ("testing.py", "{customer}, your", "customer, your"),
    ],
)
def test_an_example_that_did_other_things_would_be_seen(
    name: str, old: str, new: str, tmp_path: Path
) -> None:
    source = (ROOT / "examples" / name).read_text(encoding="utf-8")
    assert old in source
    (tmp_path / name).write_text(source.replace(old, new), encoding="utf-8")
    assert run(tmp_path / name, tmp_path) != PRINTED[name]


def test_the_readme_shows_examples_and_what_they_print(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown, printed = blocks(readme, "python"), blocks(readme, "text")
    assert shown == [(ROOT / "examples" / name).read_text(encoding="utf-8") for name in SHOWN]
    payments, worked, executed = printed
    for name, source, said in zip(SHOWN, shown, (payments, executed), strict=True):
        (tmp_path / name).write_text(source, encoding="utf-8")
        assert run(tmp_path / name, tmp_path) == said
    # The first is run as the README says; of two customers either may be first.
    done = subprocess.run(
        [sys.executable, "-m", "inturn.cli.main", "work", "payments:app", "--drain"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for customer in ("ann", "bob"):
        paid = [line for line in worked.splitlines() if line.startswith(customer)]
        assert [line for line in done.stdout.splitlines() if line.startswith(customer)] == paid
    assert "4 jobs done" in done.stdout


def test_a_page_without_the_example_would_be_seen() -> None:
    assert blocks("```python\nprint(1)\n```\n", "python") == ["print(1)\n"]
    assert blocks("print(1)\n", "python") == []
