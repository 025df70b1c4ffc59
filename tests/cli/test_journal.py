"""The last line of ``inturn work``: no more than is known."""

from __future__ import annotations

import pytest

from inturn.cli.journal import Journal
from inturn.model.worker_events import Counts, Stopped


@pytest.mark.parametrize(
    ("died", "said"),
    [
        (0, "2 jobs done, 1 dead."),
        (1, "at least 2 jobs done, 1 dead; 1 process died without saying what was done last."),
        (3, "at least 2 jobs done, 1 dead; 3 processes died without saying what was done last."),
    ],
)
def test_what_a_crew_did_is_the_least_it_did_if_processes_died(
    died: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = Counts(done=2, dead=1)
    Journal(as_json=False)(Stopped(worker="w1", counts=counts, seconds=46.0, members_died=died))
    assert capsys.readouterr().out == f"Stopped after 46s: {said}\n"
