"""A broken engine on PostgreSQL: each part of it, taken out alone, is missed by name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from inturn.queue.app import App
from tests.verify.broken import PARTS, assert_named, broken
from tests.verify.spoilt_postgres import spoil

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("part", PARTS)
def test_what_postgresql_would_break_is_named(part: str, tmp_path: Path, postgres_url: str) -> None:
    asyncio.run(App(postgres_url).migrate())
    spoil(postgres_url, part)
    assert_named(part, lambda seed: broken(postgres_url, tmp_path, part, seed=seed))
