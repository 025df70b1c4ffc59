"""A worker that runs handlers twice, never, or after it settled them, is found out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.verify.support import explained, verified

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("twice", "began 2 times under lease"),
        ("never", "and its handler had not come to its end"),
        ("early", "and its handler had not come to its end"),
    ],
)
def test_a_worker_that_does_not_do_what_it_says_is_named(
    part: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    report = verified(
        None,
        tmp_path / "history",
        jobs=300,
        seconds=None,
        faults=(),
        spoil=f"tests.verify.spoilt_worker:{part}",
    )
    found = [one.text for one in report.violations if one.rule == "runs"]
    assert any(said in one for one in found), explained(report)
