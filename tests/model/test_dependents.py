"""Jobs that wait for others: the protocol holds in every order of steps, and needs each rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.dependents import RULES, VARIANTS, WORLDS, Rules, explore

PAGE = (Path(__file__).parents[2] / "docs/explain/model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WORLDS)
def test_whoever_waits_is_let_in_once_and_not_early(name: str) -> None:
    states, found = explore(WORLDS[name])
    assert found is None, f"\n{found}"
    assert f"| {name} | {states:,} |" in PAGE


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_somebody_waits_for_ever(rule: str) -> None:
    assert explore(VARIANTS[rule])[1] is None
    found = explore(VARIANTS[rule], Rules().without(rule))[1]
    assert found is not None, f"nothing is wrong without {rule}"
    _, _, rest = PAGE.partition(f"- `{rule}`:")
    assert str(found) in rest.partition("\n- `")[0].replace("\n  ", "\n")
