"""A broken engine on SQLite: each part, taken out alone, is missed by name; a whole one is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inturn.verify import recovery
from tests.verify.broken import FAULTS, PARTS, assert_clean, assert_named, broken

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


@pytest.mark.parametrize("faults", FAULTS, ids=lambda one: "+".join(one) or "none")
def test_nothing_is_missed_on_sqlite_when_nothing_is_taken_out(
    faults: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "SLACK_SECONDS", 60.0)  # for a machine with more to do
    assert_clean(None, tmp_path, faults)
