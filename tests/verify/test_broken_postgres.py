"""A broken engine on PostgreSQL: each part, taken out, is missed by name; a whole one is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from inturn.verify import recovery
from tests.verify.broken import FAULTS, PARTS, assert_clean, assert_named, broken
from tests.verify.spoilt_postgres import spoil

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("part", PARTS)
def test_what_postgresql_would_break_is_named(part: str, tmp_path: Path, migrated_url: str) -> None:
    spoil(migrated_url, part)
    assert_named(part, lambda seed: broken(migrated_url, tmp_path, part, seed=seed))


@pytest.mark.parametrize("faults", FAULTS, ids=lambda one: "+".join(one) or "none")
def test_nothing_is_missed_on_postgresql_when_nothing_is_taken_out(
    faults: tuple[str, ...],
    tmp_path: Path,
    migrated_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "SLACK_SECONDS", 60.0)  # for a machine with more to do
    assert_clean(migrated_url, tmp_path, faults)
