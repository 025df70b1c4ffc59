"""With ``--json`` there is nothing on standard output but JSON, whatever handlers print."""

from __future__ import annotations

import pytest

from tests.processes import loud
from tests.processes.support import Place

LOUD = "tests.processes.loud:app"
NOISES = [
    f"noise {of} in {where}"
    for of in ("of print", "without an end", "of write", "of a program", "of a fork", "of C")
    for where in ("a loop", "a thread", "a process", "a hook")
]

CREWS = pytest.mark.parametrize("crew", [[], ["--processes", "2"]], ids=["alone", "crew"])


@CREWS
def test_what_handlers_print_never_comes_between_the_events(
    sqlite_place: Place, crew: list[str]
) -> None:
    sqlite_place.submit(loud.on_loop.call(), loud.on_thread.call(), loud.in_process.call())
    worker = sqlite_place.start("--drain", *crew, target=LOUD)
    assert worker.ended() == 0
    *kinds, last = [event["event"] for event in worker.events()]
    assert sorted(kinds) == ["died", "died", "died", "started"]  # of two, one may start late
    assert last == "stopped"
    assert [noise for noise in ["noise of the module", *NOISES] if noise not in worker.errors] == []
