"""Jobs that wait for others: the protocol holds in every order of steps, and needs each rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.dependents import RULES, VARIANTS, WORLDS, Rules, explore
from tests.model.rules import RULES as LOCK_RULES

PAGE = (Path(__file__).parents[2] / "docs/explain/model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WORLDS)
def test_whoever_waits_is_let_in_once_and_not_early(name: str) -> None:
    states, found = explore(WORLDS[name])
    assert found is None, f"\n{found}"
    assert states > 500


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_somebody_waits_for_ever(rule: str) -> None:
    assert explore(VARIANTS[rule])[1] is None
    found = explore(VARIANTS[rule], Rules().without(rule))[1]
    assert found is not None, f"nothing is wrong without {rule}"


@pytest.mark.parametrize("rule", [*RULES, *LOCK_RULES])
def test_the_page_says_what_each_rule_is_for(rule: str) -> None:
    assert f"\n| `{rule}` | " in PAGE
