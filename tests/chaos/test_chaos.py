"""The judge of chaos finds what it is for, and a short run on each store is sound.

Promises P1, P2 and P3 of ARCHITECTURE.md, of whole systems.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from inturn.model.job import Job, JobState, JobView, NewJob
from tests.chaos.jobs import STRICT
from tests.chaos.judge import Final, Judge, time_of
from tests.chaos.log import AnyLine, Ended, Sending, Started, Struck
from tests.chaos.run import Run
from tests.postgres_server import PostgresServer

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
JOBS = [
    NewJob(id=A, kind="coroutine", key="k"),
    NewJob(id=B, kind="coroutine", key="k"),
    NewJob(id=C, kind="coroutine"),
]


class Story:
    """A sound run: A and B of a key, then A again since its worker was killed; C without a key."""

    def __init__(self) -> None:
        self.lines: list[AnyLine] = [
            Sending(at=0, pid=1, producer=0, jobs=JOBS),
            Started(at=1, pid=2, job=A, token=5),
            Ended(at=2, pid=2, job=A, token=5, ok=True),
            Started(at=3, pid=2, job=B, token=5),
            Struck(at=4, pid=1, fault="kill-worker", struck=2),
            Started(at=5, pid=3, job=A, token=6),
            Ended(at=6, pid=3, job=A, token=6, ok=True),
            Started(at=7, pid=3, job=B, token=6),
            Ended(at=8, pid=3, job=B, token=6, ok=True),
            Started(at=9, pid=3, job=C, token=7),
            Ended(at=10, pid=3, job=C, token=7, ok=True),
        ]
        self.states = dict.fromkeys((A, B, C), JobState.DONE)
        self.settled: dict[UUID, list[int]] = {A: [6], B: [6], C: [7]}
        self.complaints: list[str] = []

    def sentences(self) -> list[str]:
        views = {id: JobView(job=kept(id), state=state) for id, state in self.states.items()}
        final = Final(views=views, settled=self.settled, complaints=self.complaints)
        return list(Judge(self.lines, final).sentences())


def kept(id: UUID) -> Job:
    return Job(id, "default", None, "coroutine", "null", 0, 0, 5, None, time_of(0))


def put(story: Story, place: int, line: AnyLine) -> None:
    story.lines.insert(place, line)


def change(story: Story, place: int, **fields: Any) -> None:
    story.lines[place] = msgspec.structs.replace(story.lines[place], **fields)


SPOILT: dict[str, tuple[Callable[[Story], Any], str]] = {
    "lost": (lambda s: s.states.pop(B), "is None, not done"),
    "buried": (lambda s: s.states.update({C: JobState.DEAD}), "is dead, not done"),
    "left": (lambda s: s.states.update({C: JobState.RUNNING}), "is running, not done"),
    "fence": (lambda s: s.settled.update({A: [5]}), "started though it is done"),
    "never-ended": (lambda s: s.settled.update({B: [5]}), "did not come to its end"),
    "twice": (lambda s: s.settled.update({C: [7, 8]}), "under the leases [7, 8]"),
    "at-once": (lambda s: s.lines.insert(7, s.lines.pop(6)), "before"),
    "overtakes": (
        lambda s: put(s, 1, Started(at=1, pid=2, job=B, token=4)),
        "overtook",
    ),
    "no-reason": (lambda s: s.lines.pop(4), "for no reason"),
    "again": (
        lambda s: put(s, 11, Started(at=11, pid=3, job=C, token=9)),
        "started though it is done",
    ),
    "unknown": (lambda s: change(s, 0, jobs=JOBS[:2]), "never submitted"),
    "too-soon": (
        lambda s: change(
            s, 0, jobs=[*JOBS[:2], msgspec.structs.replace(JOBS[2], delay_seconds=60)]
        ),
        "before it was due",
    ),
    "goes-back": (
        lambda s: change(
            s, 0, jobs=[msgspec.structs.replace(one, queue=STRICT) for one in JOBS[:2]] + JOBS[2:]
        ),
        "began again after its successor",
    ),
    "tables": (lambda s: s.complaints.append("lane 1 is stranded"), "stranded"),
}


def test_a_sound_story_is_not_accused() -> None:
    assert Story().sentences() == []


@pytest.mark.parametrize(("spoil", "said"), list(SPOILT.values()), ids=list(SPOILT))
def test_a_spoilt_story_is_told(spoil: Callable[[Story], Any], said: str) -> None:
    story = Story()
    spoil(story)
    found = story.sentences()
    assert any(said in sentence for sentence in found), found


@pytest.mark.slow
async def test_a_short_run_is_sound_on_sqlite(tmp_path: Path) -> None:
    faults = ["kill-worker", "kill-producer", "stop-worker"]
    await Run(f"sqlite:///{tmp_path / 'work.db'}", tmp_path, faults, jobs=600).go()


@pytest.mark.slow
async def test_a_short_run_is_sound_on_postgres(
    private_postgres: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    server = private_postgres()
    server.create_database("chaos")
    faults = ["kill-worker", "kill-producer", "stop-worker", "kill-backend", "stop-server"]
    await Run(server.url("chaos"), tmp_path, faults, server, jobs=600).go()
