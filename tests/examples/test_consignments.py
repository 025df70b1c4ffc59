"""The tutorial of seed 001: its run says what its page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/consignments"
PAGE = (EXAMPLE / "README.md").read_text(encoding="utf-8")


def test_the_five_problems_do_not_happen(tmp_path: Path) -> None:
    """(001-15, 001-18)"""
    done = subprocess.run(
        [sys.executable, EXAMPLE / "run.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    promised = PAGE.split("run.py\n", 1)[1].split("```", 1)[0]
    assert done.stdout == promised


def test_the_page_shows_the_code_as_it_is() -> None:
    code = (EXAMPLE / "transfers.py").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(shown) == 2
    assert [one for one in shown if one not in code] == []


def test_what_the_page_names_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert [one for one in links if not (EXAMPLE / one).exists()] == []
