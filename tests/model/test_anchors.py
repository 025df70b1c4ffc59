"""The model stands on the SQL as it is: each step finds the clauses that it relies on."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.model import dependents
from tests.model.anchors import ANCHORS, POSTGRES, Anchor, missing
from tests.model.rules import RULES

SOURCE = """\
create or replace function inturn.rest(p_lanes bigint[]) returns void language plpgsql as $$
begin
    -- last words
    update inturn.tail set last = last;
    update inturn.lane set
        active = false;
end $$;
"""


@pytest.mark.parametrize("anchor", ANCHORS, ids=str)
def test_a_step_finds_its_clauses(anchor: Anchor) -> None:
    source = (POSTGRES / anchor.file).read_text(encoding="utf-8")
    assert list(missing(anchor, source)) == []


@pytest.mark.parametrize("anchor", ANCHORS, ids=str)
def test_a_step_is_one_of_the_models(anchor: Anchor) -> None:
    module, _, name = anchor.step.partition(".")
    steps = import_module(f"tests.model.{module}")
    assert hasattr(steps, name) or hasattr(steps._Turn, name)


def test_every_rule_is_kept_by_a_clause() -> None:
    kept = {rule for anchor in ANCHORS for rule in anchor.rules}
    assert kept == {*RULES, *dependents.RULES}


@pytest.mark.parametrize(
    ("function", "clauses"),
    [
        ("rest", ("set last = last for update",)),
        ("rest", ("active = false", "set last = last")),
        ("rest", ("last words",)),
        ("wake", ("active = false",)),
    ],
)
def test_a_clause_that_is_gone_is_missed(function: str, clauses: tuple[str, ...]) -> None:
    anchor = Anchor(step="claims.sleep", file="x.sql", function=function, clauses=clauses)
    assert list(missing(anchor, SOURCE))


def test_a_clause_that_is_there_is_found() -> None:
    clauses = ("set last = last", "update inturn.lane set active = false")
    anchor = Anchor(step="claims.sleep", file="x.sql", function="rest", clauses=clauses)
    assert not list(missing(anchor, SOURCE))
