"""The decisions of groups, over random graphs, failures and deaths, under a clock moved by hand."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inturn.groups import group_decisions, step_decisions
from inturn.groups.model import GroupState, StepState
from inturn.groups.step_decisions import GroupFacts, Happened, Move, StepFacts, Then
from tests.groups.world import BrokenRule, World, random_graph

Drawn = tuple[list[list[int]], list[StepFacts]]


def graphs(*, irreversible: bool = True) -> st.SearchStrategy[Drawn]:
    return st.randoms().map(partial(random_graph, irreversible=irreversible))


def run(graph: Drawn, seed: int, trouble: float) -> World:
    world = World(*graph, Random(seed), trouble=trouble)
    world.run()
    return world


@given(graphs(), st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=400, deadline=None)
def test_a_group_ends_done_or_undone_or_stuck_with_a_true_list(
    graph: Drawn, seed: int, trouble: float
) -> None:
    """Whatever fails and whoever dies (000-08) (000-09) (000-10) (000-21) (000-25)."""
    world = run(graph, seed, trouble)
    if not trouble:
        assert world.group.state is GroupState.DONE


@given(graphs(), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_what_is_stuck_can_be_retried_until_it_has_ended(graph: Drawn, seed: int) -> None:
    world = run(graph, seed, 1.0)
    world.trouble = 0.0
    for _ in range(20):
        if world.group.state is not GroupState.STUCK:
            break
        if seed % 2:
            world.drop()
            assert world.run() is GroupState.STUCK
        retried = [world.retry(step) for step in range(len(world.steps))]
        assert any(retried)
        world.run()
    assert world.group.state in (GroupState.DONE, GroupState.UNDONE)


@given(graphs(), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_what_is_stuck_can_be_skipped(graph: Drawn, seed: int) -> None:
    world = run(graph, seed, 1.0)
    world.trouble = 0.0
    while world.group.state is GroupState.STUCK:
        skipped = [world.skip(step) for step in range(len(world.steps))]
        assert any(skipped)
        world.run()
    assert world.group.state in (GroupState.DONE, GroupState.UNDONE)


@given(graphs(irreversible=False), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_a_done_group_can_be_undone(graph: Drawn, seed: int) -> None:
    world = run(graph, seed, 0.0)
    assert world.ask_undo()
    world.run()
    assert world.group.state is GroupState.UNDONE
    assert not world.there


def test_the_check_names_an_undo_in_the_wrong_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(states: Any, after: Any, numbers: list[int]) -> dict[int, list[int]]:
        return {number: [] for number in numbers}

    monkeypatch.setattr(group_decisions, "undo_waits", at_once)
    assert "undo order" in _broken_rule()


def test_the_check_names_a_verify_that_is_skipped_after_a_death(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = step_decisions.next_move

    def blindly(group: GroupFacts, step: StepFacts) -> Move:
        move = asked(group, step)
        return Move.RUN if move is Move.ASK and group.goes_forward else move

    monkeypatch.setattr(step_decisions, "next_move", blindly)
    assert "without being verified" in _broken_rule()


def _broken_rule() -> str:
    """Return what the check says first over many random groups."""
    steps = [StepFacts(has_verify=True, attempts_max=3, undo_attempts_max=3) for _ in range(5)]
    for seed in range(300):
        try:
            World([[], [0], [0], [1, 2], [3]], steps, Random(seed), trouble=1.0).run()
        except BrokenRule as error:
            return str(error)
    return "no rule was broken"


def test_an_uncertain_step_is_never_run_before_it_was_asked() -> None:
    """The step whose worker died is verified first (000-21)."""
    group = GroupFacts(state=GroupState.RUNNING)
    for state in StepState:
        move = step_decisions.next_move(group, StepFacts(state=state, has_verify=True))
        assert (move is Move.RUN) == (state is StepState.PENDING)
        assert (move is Move.ASK) == (state in (StepState.RUNNING, StepState.UNKNOWN))


def test_still_running_uses_no_attempt() -> None:
    """As (000-19) says."""
    step = step_decisions.begun(StepFacts(has_verify=True, attempts_max=1))
    outcome = step_decisions.after(_forward(), step, Happened.STILL_RUNNING)
    assert outcome.then is Then.LOOK_AGAIN
    assert outcome.facts.attempts == 1
    assert step_decisions.after(_forward(), outcome.facts, Happened.APPLIED).then is Then.DONE


def test_a_rejection_after_a_doubtful_attempt_does_not_make_it_certain() -> None:
    step = step_decisions.begun(StepFacts(idempotent=True, attempts_max=2))
    step = step_decisions.begun(step_decisions.after(_forward(), step, Happened.CANNOT_TELL).facts)
    failed = step_decisions.after(_forward(), step, Happened.REJECTED)
    assert failed.facts.state is StepState.POSSIBLY_APPLIED


def test_what_cannot_be_confirmed_stops_the_group_before_an_irreversible_step() -> None:
    step = StepFacts(irreversible=True)
    assert step_decisions.next_move(_forward(), step) is Move.CONFIRM
    outcome = step_decisions.after(_forward(), step, Happened.UNCONFIRMED)
    assert outcome.facts.state is StepState.NOT_APPLIED
    assert outcome.group is GroupState.STOPPING


def test_past_an_irreversible_step_what_fails_is_stuck_and_others_go_on() -> None:
    group = GroupFacts(state=GroupState.RUNNING, has_begun_irreversible=True)
    outcome = step_decisions.after(
        group, step_decisions.begun(StepFacts(attempts_max=1)), Happened.REJECTED
    )
    assert outcome.group is GroupState.STUCK
    stuck = GroupFacts(state=GroupState.STUCK, has_begun_irreversible=True)
    assert step_decisions.next_move(stuck, StepFacts()) is Move.RUN
    assert step_decisions.why_not_undo(stuck) is not None


def test_a_paused_group_does_nothing_on_its_way_forward_or_back() -> None:
    forward = GroupFacts(state=GroupState.RUNNING, is_paused=True)
    back = GroupFacts(state=GroupState.UNDOING, is_paused=True)
    assert step_decisions.next_move(forward, StepFacts()) is Move.LATER
    assert step_decisions.next_move(forward, StepFacts(state=StepState.RUNNING)) is Move.LATER
    assert step_decisions.next_undo(back, StepFacts(state=StepState.TO_UNDO)) is Move.LATER


def _forward() -> GroupFacts:
    return GroupFacts(state=GroupState.RUNNING)
