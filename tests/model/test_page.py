"""The page about the model shows what the explorer finds today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.rules import RULES
from tests.model.variants import VARIANTS, Variant
from tests.model.worlds import WORLDS, World

PAGE = (Path(__file__).parents[2] / "docs/explain/model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_counterexample_stands_under_its_rule(variant: Variant) -> None:
    _, _, rest = PAGE.partition(f"### `{variant.rule}`\n")
    section = rest.partition("\n### ")[0]
    assert str(variant.explore().counterexample) in section


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_world_stands_with_its_states(world: World) -> None:
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| {world.name} |")]
    assert f"| {world.states:,} |" in row


def test_every_section_is_about_a_rule() -> None:
    sections = [line for line in PAGE.splitlines() if line.startswith("### ")]
    assert sections == [f"### `{rule}`" for rule in RULES]
