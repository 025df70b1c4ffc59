"""Words for people: a length of time is shown as it would be typed."""

from __future__ import annotations

import pytest

from inturn.cli.plain import seconds_text
from inturn.model.duration import parse_duration

DAY = 86_400.0


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0s"),
        (0.000_001, "0.001ms"),
        (0.5, "500ms"),
        (1.0, "1s"),
        (1.5, "1.5s"),
        (60.0, "1m"),
        (90.1, "1m30.1s"),
        (119.999_999_9, "2m"),
        (0.999_999_9, "1s"),
        (300.0, "5m"),
        (3_601.0, "1h1s"),
        (DAY, "1d"),
        (366 * DAY - 1, "365d23h59m59s"),
        (366 * DAY + 0.1, "366d0.1s"),
    ],
)
def test_a_setting_is_shown_as_it_would_be_typed(seconds: float, shown: str) -> None:
    assert seconds_text(seconds) == shown
    assert parse_duration(shown) == pytest.approx(seconds, abs=1e-7)


def test_a_setting_that_is_not_there_is_shown_as_nothing() -> None:
    assert seconds_text(None) == ""
