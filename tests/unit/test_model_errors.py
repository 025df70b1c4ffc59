"""Errors: each says what happened, to which thing, and what to do."""

from __future__ import annotations

import inspect

import pytest

from inturn.model import errors
from inturn.model.ids import new_id

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
