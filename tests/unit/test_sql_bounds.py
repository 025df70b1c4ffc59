"""A bound that SQL has to spell out is the one of ``model/bounds.py``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import inturn.store
from inturn.model import bounds

SQL = "\n".join(
    path.read_text(encoding="utf-8")
    for path in sorted(Path(inturn.store.__file__).parent.rglob("*.sql"))
)

TYPED = {
    r"length\(name\) between 1 and (\d+)": bounds.QUEUE_CHARS_MAX,
    r"length\(key\) between 1 and (\d+)": bounds.KEY_CHARS_MAX,
    r"length\(queue\), 0\) not between 1 and (\d+)": bounds.QUEUE_CHARS_MAX,
    r"length\(kind\), 0\) not between 1 and (\d+)": bounds.KIND_CHARS_MAX,
    r"length\(key\) not between 1 and (\d+)": bounds.KEY_CHARS_MAX,
    r"length\(dedupe\) not between 1 and (\d+)": bounds.DEDUPE_CHARS_MAX,
    r"octet_length\(p_text\) > (\d+)": bounds.PAYLOAD_BYTES_MAX,
    r"priority not between (-\d+) and \d+": bounds.PRIORITY_MIN,
    r"priority not between -\d+ and (\d+)": bounds.PRIORITY_MAX,
    r"round not between 0 and (\d+)": bounds.ROUND_MAX,
    r"not delay_seconds between 0 and (\d+)": bounds.DELAY_SECONDS_MAX,
    r"attempts_max not between 1 and (\d+)": bounds.ATTEMPTS_MAX,
    r"not timeout_seconds between 0\.001 and (\d+)": bounds.TIMEOUT_SECONDS_MAX,
    r"not dedupe_seconds between 0\.001 and (\d+)": bounds.DEDUPE_SECONDS_MAX,
    r"cardinality\(after\) > (\d{2,})": bounds.AFTER_MAX,
    r"cardinality\(after_failed\) > (\d{2,})": bounds.AFTER_MAX,
    r"cardinality\(v_waits_on\) \+ cardinality\(v_after\) > (\d+)": bounds.WAITS_MAX,
    r"order by 1 limit (\d+)": bounds.AWAITED_SHOWN_MAX,
    r"v_count > (\d+) then": bounds.ENQUEUE_JOBS_MAX,
    r"v_chars > (\d+) then": bounds.ENQUEUE_CHARS_MAX,
    r"jsonb_array_length\(errors\) <= (\d+)": bounds.ERRORS_MAX,
    r"inturn\.wake_parked\([^)]*, (\d+)\)": bounds.DUE_JOBS_MAX,
    r"attempts_max integer default (\d+)": bounds.ATTEMPTS_DEFAULT,
    r"dedupe_seconds double precision default (\d+)": bounds.DEDUPE_SECONDS_DEFAULT,
    r"keep_done_seconds (?:real|double precision) not null default (\d+)": (
        bounds.KEEP_DONE_SECONDS_DEFAULT
    ),
    r"aging_seconds (?:real|double precision) not null default (\d+)": bounds.AGING_SECONDS_DEFAULT,
    r"q\.aging_seconds[^,;]{0,80}, (\d+)\)": bounds.AGING_SECONDS_DEFAULT,
}


@pytest.mark.parametrize("typed", TYPED)
def test_a_bound_that_is_typed_in_sql_is_the_one_of_the_model(typed: str) -> None:
    found = {int(number) for number in re.findall(typed, SQL)}
    assert found == {TYPED[typed]}
