"""Sentences of the log read on, whatever is quoted in them."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest

from inturn.log import LINE_CHARS_MAX, log_worker_event
from inturn.model.worker_events import AttemptFailed, Died

JOB = UUID("0199f3a2-7c1e-7abc-8def-0123456789ab")


@pytest.mark.parametrize(
    ("reason", "quoted"),
    [
        ("rejected: no such customer", "rejected: no such customer"),
        ("its payload does not fit its handler.", "its payload does not fit its handler"),
        ("ValueError: first\nsecond.", "ValueError: first…"),
        ("x" * (LINE_CHARS_MAX + 1), "x" * LINE_CHARS_MAX + "…"),
    ],
)
def test_a_sentence_goes_on_after_the_error_that_it_quotes(
    reason: str, quoted: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "inturn.worker")
    about: dict[str, Any] = {
        "worker": "w1",
        "job": JOB,
        "queue": "outbox",
        "kind": "mail",
        "key": None,
    }
    log_worker_event(Died(**about, attempt=5, reason=reason), "-A shop:app")
    log_worker_event(
        AttemptFailed(**about, attempt=1, attempts_max=5, error=reason, delay_seconds=0.5)
    )
    assert caplog.messages == [
        f"worker w1: job {JOB} (mail) is dead: {quoted}. "
        f"Details: `inturn jobs show {JOB.hex[-8:]} -A shop:app`",
        f"worker w1: job {JOB} (mail) failed: {quoted}; attempt 1 of 5, again in 0.5 s",
    ]
