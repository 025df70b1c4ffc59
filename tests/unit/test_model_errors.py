"""Errors: each says what happened, to which thing, and what to do."""

from __future__ import annotations

import inspect
from uuid import UUID

import pytest

import inturn
import inturn.testing
from inturn.model import errors
from inturn.model.ids import new_id
from inturn.testing.errors import DrainTimeout

EVERY_ERROR = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.InturnError)
]
ONE, TWO = new_id(), new_id()


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_every_error_is_an_inturn_error_and_is_explained(error: type[Exception]) -> None:
    assert issubclass(error, errors.InturnError)
    assert (error.__doc__ or "").endswith(".")


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_every_error_is_in_the_tree_that_the_module_opens_with(error: type[Exception]) -> None:
    assert error.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_every_error_is_imported_from_the_package_itself(error: type[Exception]) -> None:
    assert error.__name__ in inturn.__all__
    assert getattr(inturn, error.__name__) is error


def test_a_type_checker_knows_the_errors_of_the_package() -> None:
    def caught(full: inturn.EnqueueTimeout) -> tuple[float, inturn.QueueFull]:
        return full.waited_seconds, full

    assert caught(inturn.EnqueueTimeout("k", 3, 6, 6, 1, 0.1))[0] == 0.1
    assert inturn.testing.DrainTimeout is DrainTimeout


def test_bad_input_is_a_value_error_and_what_is_not_found_a_lookup_error() -> None:
    for error in EVERY_ERROR:
        assert issubclass(error, ValueError) is issubclass(error, errors.BadInput)
        assert issubclass(error, LookupError) is issubclass(error, errors.NotFound)


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (errors.UnknownDependency([TWO, ONE]), [str(ONE), str(TWO)]),
        (errors.DependencyCycle([ONE, TWO, ONE]), [f"{ONE} → {TWO} → {ONE}"]),
        (errors.DedupeConflict("mail", "d-1", ONE), ["'mail'", "'d-1'", str(ONE)]),
        (errors.JobConflict(ONE), [str(ONE)]),
        (errors.QueueFull("mail", None, 5, 6), ["queue 'mail'", "5", "6"]),
        (errors.QueueFull("mail", None, 5, 6, 2, 17), ["2 more", "17 s"]),
        (errors.WrongJob(7, 3, ONE), ["7", "3", str(ONE)]),
        (errors.SchemaTaken("work.db", ["job", "lane"], "Look."), ["work.db", "job, lane"]),
        (errors.QueueFull("mail", "a", 5, 6), ["lane 'a'", "queue 'mail'"]),
        (errors.LeaseLost([7, 5, 7]), ["5, 7"]),
        (errors.UnknownJob(ONE), [str(ONE)]),
        (errors.UnknownLane("mail", "a"), ["'mail'", "'a'"]),
        (errors.UnknownQueue("mail"), ["'mail'"]),
        (errors.NotHalted("mail", "a"), ["'mail'", "'a'"]),
        (errors.SchemaTooNew(9, 2), ["9", "2"]),
        (errors.ShardFull("k", 3, 5, 6), ["shard 3", "'k'", "5", "6"]),
        (errors.ShardFull("k", 3, 5, 6, 7), ["never fit"]),
        (errors.ShardFull("k", 3, 6, 6), ["raise queue_size"]),
        (errors.ShardFull("k", 3, 6, 6, is_total=True), ["all its shards", "raise depth_max"]),
        (errors.ShardFull("k", 3, 5, 6), ["others came first"]),
        (errors.EnqueueTimeout("k", 3, 6, 6, 1, 0.1), ["shard 3", "0.1 s"]),
        (errors.EnqueueTimeout("k", 3, 6, 6, 1, 0.1, is_total=True), ["all its shards", "0.1 s"]),
        (errors.WaitsForItself("stop", "k"), ["stop", "'k'"]),
        (errors.WaitsForItself("result_sync", None), ["result_sync", "loop"]),
        (errors.KeyHalted("k", "ValueError: no"), ["'k'", "ValueError: no", "resume"]),
        (errors.TooManyHalted(10_000), ["10,000"]),
        (errors.EarlierFailure("k", 2, "ValueError: no"), ["2 jobs", "'k'", "ValueError: no"]),
        (errors.JobCancelled("k", "its loop ended"), ["'k'", "its loop ended"]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_error_names_its_things_in_a_whole_sentence(error: Exception, named: list[str]) -> None:
    sentence = str(error)
    for name in named:
        assert name in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    "error",
    [
        errors.JobFailed(ONE, "rejected: retry it."),
        errors.JobFailed(None, "rejected: retry it."),
        errors.ResultCancelled(ONE, "retry it."),
        errors.JobCancelled("k", "retry it."),
        errors.PayloadMismatch("send", "retry it."),
        errors.ResultMismatch("retry it."),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_reason_that_is_a_sentence_has_one_full_stop(error: Exception) -> None:
    assert "retry it." in str(error)
    assert ".." not in str(error)


def test_errors_carry_their_things() -> None:
    assert errors.UnknownDependency([TWO, ONE]).missing == (ONE, TWO)
    assert errors.LeaseLost([7, 5, 7]).tokens == (5, 7)
    full = errors.QueueFull("mail", "a", 5, 6)
    assert (full.queue, full.key, full.depth, full.depth_max) == ("mail", "a", 5, 6)
    assert errors.UnknownJob(UUID(int=3)).job == UUID(int=3)
