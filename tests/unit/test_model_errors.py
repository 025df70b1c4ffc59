"""Errors: each says what happened, to which thing, and what to do."""

from __future__ import annotations

import inspect

import pytest

from inturn.model import errors

EVERY_ERROR = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.InturnError)
]


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_every_error_is_an_inturn_error_and_is_explained(error: type[Exception]) -> None:
    assert issubclass(error, errors.InturnError)
    assert (error.__doc__ or "").endswith(".")


def test_bad_input_is_a_value_error_and_what_is_not_found_a_lookup_error() -> None:
    for error in EVERY_ERROR:
        assert issubclass(error, ValueError) is issubclass(error, errors.BadInput)
        assert issubclass(error, LookupError) is issubclass(error, errors.NotFound)
