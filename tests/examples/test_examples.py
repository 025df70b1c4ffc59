"""Every example runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PRINTED = {
    "durable.py": "ann [0, 1, 2, 3, 4]\n",
    "engine.py": (
        'order {"number":1}, attempt 1\norder {"number":2}, attempt 1\nmail null, attempt 1\n'
    ),
    "executor.py": "bob [1, 2, 3]\neve 3 writes\nann [1, 2, 3]\n",
    "groups.py": (
        "a worker was killed while it copied; another goes on\n"
        "  table    on east     applied\n"
        "  rows     on east     applied\n"
        "  index    on east     applied\n"
        "  switch   on router   applied\n"
        "  quota    on router   failed\n"
        "  switch   on router   undone\n"
        "  index    on east     undone\n"
        "  rows     on east     undone\n"
        "  table    on east     undone\n"
        "move-users is undone: step 'quota' failed: Reject: IntegrityError: CHECK\n"
        "constraint failed: place <= 3\n"
        "west: 20 users\n"
        "east: 0 tables\n"
        "router: users are on west\n"
    ),
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


def test_what_the_containers_copy_and_run_works(tmp_path: Path) -> None:
    file = (ROOT / "contrib/Dockerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:-1] for line in file.splitlines() if line.startswith("COPY ")]
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    environment = {"INTURN_APP": "shop:app", "INTURN_STORE": f"sqlite:///{tmp_path}/work.db"}
    assert f"INTURN_APP={environment['INTURN_APP']} " in file

    def inturn(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "inturn", *arguments],
            cwd=ROOT / "contrib",
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    inturn("store", "migrate")
    inturn("submit", "charge", "--payload", '{"customer": "ann", "cents": 500}', "--key", "ann")
    assert "ann pays 500" in inturn("work", "--drain")
