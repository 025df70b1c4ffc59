"""What is refused before anything is stored: it says which step, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inturn import App, BadInput, Group, command, request, sql
from inturn.groups.model import EDGES_MAX, STEPS_MAX
from inturn.groups.plan import in_order, longest_path, waves

app = App("sqlite:///:memory:")
app.node("n")
app.node("pg", "postgresql://db/x")


@app.job(priority=3, timeout=7, attempts=2)
async def make(name: str) -> None:
    """Nothing."""


def steps(group: Group, **changes: Any) -> object:
    options: dict[str, Any] = {"node": "n", "do": make.call("a"), "undo": make.call("b")}
    return group.step("a", **(options | changes))


Build = Callable[[Group], object]


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda g: steps(g, node="m"), "step 'a' is on node 'm', which nobody declared"),
        (lambda g: steps(g, after=["b"]), "step 'a' comes after 'b', which is no step of group"),
        (lambda g: steps(g, after=["a"]), "in a circle: 'a' → 'a'"),
        (lambda g: steps(g, undo=None), "step 'a' has no undo. Give it one, or say irreversible"),
        (lambda g: steps(g, irreversible=True), "has an undo and is irreversible"),
        (lambda g: [steps(g) for _ in range(2)], "there are two steps 'a'"),
        (lambda g: steps(g, do="drop table x"), "do of step 'a' is a job's call, inturn.sql"),
        (lambda g: steps(g, do=make), "a job without its arguments: write make.call"),
        (lambda g: steps(g, do=make.using(key="k").call("a")), "has key=…. A step's order comes"),
        (lambda g: steps(g, do=make.using(priority=9).call("a")), "has priority=…"),
        (lambda g: steps(g, verify=make.using(dedupe="k").call("a")), "verify of step 'a': its"),
        (lambda g: steps(g, undo=make.using(delay=3).call("a")), "undo of step 'a': its call"),
        (lambda g: steps(g, do=make.using(after=[make.call("x")]).call("a")), "has after=…"),
        (lambda g: steps(g, do=sql("select 1")), "step 'a' is SQL, and node 'n' has no address"),
        (lambda g: steps(g, do=request("GET", "/x")), "request for a path, and node 'n' has no"),
        (lambda g: steps(g, node="pg", do=request("GET", "/x")), "has no HTTP address"),
        (lambda g: steps(g, attempts=0), "attempts of step 'a'"),
        (lambda g: steps(g, timeout=-1), "timeout of step 'a'"),
        (lambda g: steps(g, after="a"), "after of step 'a' is a list"),
        (lambda g: None, "has no steps"),
    ],
)
def test_it_is_refused(build: Build, said: str) -> None:
    """A cycle, a missing dependency, a missing undo, and so on (000-04) (000-05) (000-12)."""
    group = app.group("g")

    def whole() -> None:
        build(group)
        group.definition()

    with pytest.raises(BadInput) as caught:
        whole()
    assert said in str(caught.value)


def test_a_circle_is_named() -> None:
    """All of it (000-04)."""
    group = app.group("g")
    for name, after in (("a", ["c"]), ("b", ["a"]), ("c", ["b"]), ("d", ["a"]), ("e", [])):
        group.step(name, node="n", do=make.call("x"), undo=make.call("x"), after=after)
    with pytest.raises(BadInput, match=r"in a circle: 'a' → 'b' → 'c' → 'a'\."):
        group.definition()


def test_nothing_may_be_empty_or_hold_nul() -> None:
    for wrong in ("", "  ", "select '\x00'", "\ud800"):
        with pytest.raises(BadInput):
            sql(wrong)
        with pytest.raises(BadInput):
            command(wrong)


def test_there_are_bounds() -> None:
    group = app.group("g")
    call = make.call("x")
    for number in range(STEPS_MAX):
        group.step(str(number), node="n", do=call, undo=call)
    with pytest.raises(BadInput, match="more than 20,000 steps"):
        group.step("one more", node="n", do=call, undo=call)
    wide = app.group("g")
    first = [wide.step(f"a{number}", node="n", do=call, undo=call) for number in range(1_000)]
    for number in range(EDGES_MAX // 1_000 + 1):
        wide.step(f"b{number}", node="n", do=call, undo=call, after=first)
    with pytest.raises(BadInput, match="more than 500,000 pairs"):
        wide.definition()


def test_what_a_step_does_not_say_its_job_says() -> None:
    group = app.group("g")
    steps(group)
    group.step(
        "b", node="pg", do=sql("select 1"), undo=sql("select 2"), timeout=9, attempts=4, after=["a"]
    )
    group.step("c", node="pg", do=sql("select 1"), undo=sql("select 2"))
    a, b, c = group.definition().steps
    assert (c.attempts, c.timeout, c.undo_attempts, c.undo_timeout) == (5, 60, 100, 60)
    assert (a.attempts, a.timeout, a.undo_attempts, a.undo_timeout) == (2, 7, 2, 7)
    assert (b.attempts, b.timeout, b.undo_attempts, b.undo_timeout) == (4, 9, 4, 9)


def test_a_plan_has_waves_the_order_of_the_undo_and_the_longest_path() -> None:
    group = app.group("g")
    options: Any = {"node": "n", "do": make.call("x"), "undo": make.call("x")}
    a, b = group.step("a", **options), group.step("b", **options)
    c = group.step("c", after=[a], **options)
    d = group.step("d", after=[b, c], **options)
    group.step("e", node="pg", do=sql("select 1"), irreversible=True, after=[d])
    plan = group.plan()
    assert plan.waves == [["a", "b"], ["c"], ["d"], ["e"]]
    assert plan.undo_waves == [["d"], ["b", "c"], ["a"]]
    assert plan.longest_path == ["a", "c", "d", "e"]
    assert plan.nodes == {"n": ["a", "b", "c", "d"], "pg": ["e"]}
    assert plan.irreversible == ["e"]


def test_an_empty_graph_has_no_order() -> None:
    assert (in_order([]), waves([]), longest_path([])) == ([], [], [])


def test_a_node_is_declared_once() -> None:
    assert app.node("pg", "postgresql://db/x").name == "pg"
    with pytest.raises(BadInput, match="declared twice"):
        app.node("pg", "postgresql://elsewhere/x")
