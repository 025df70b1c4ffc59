"""Every rule is needed: without it, the explorer finds a way to break a promise."""

from __future__ import annotations

import pytest

from tests.model.promises import PROMISES
from tests.model.rules import RULES
from tests.model.variants import VARIANTS, Variant


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_without_a_rule_a_promise_is_broken(variant: Variant) -> None:
    found = variant.explore().counterexample
    assert found is not None, f"nothing is wrong without {variant.rule}"
    print(f"\nwithout {variant.rule}:\n{found}")
    assert found.promise == variant.breaks, found


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_with_the_rule_the_same_world_is_sound(variant: Variant) -> None:
    found = variant.explore_whole().counterexample
    assert found is None, f"\n{found}"


def test_every_rule_has_its_variant() -> None:
    assert {variant.rule for variant in VARIANTS} == set(RULES)


def test_every_promise_is_broken_by_a_variant() -> None:
    assert {variant.breaks for variant in VARIANTS} == set(PROMISES)
