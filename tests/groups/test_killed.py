"""Groups whose workers are killed in the middle of steps, verifies and undos."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.groups.killing import run_seed


@pytest.mark.parametrize("seed", range(5))
async def test_what_is_there_is_what_the_group_says(
    seed: int, postgres_url: str, tmp_path: Path
) -> None:
    """Exactly what ``done`` or ``undone`` means (000-21) (000-23)."""
    is_postgres = seed in (1, 2)
    url = postgres_url if is_postgres else f"sqlite:///{tmp_path}/w.db"
    report = await run_seed(url, tmp_path / "nodes", seed, postgres_url)
    assert report.wrong == []
    assert report.kills > 0
