"""A broken engine on SQLite: each part of it, taken out alone, is missed by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.verify.broken import PARTS, assert_named, broken

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("part", PARTS)
def test_what_sqlite_would_break_is_named(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    spoilt = f"tests.verify.spoilt_sqlite:{part}"
    assert_named(part, lambda seed: broken(None, tmp_path, part, seed=seed, spoil=spoilt))
