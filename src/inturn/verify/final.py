"""What the store says at the end of a run, kept beside the history to be read again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import msgspec

from inturn.model.errors import StoreError
from inturn.model.job import JobState
from inturn.store.store import Store
from inturn.verify.plan import Settings

ROWS_MAX = 1_000
NAME = "final.json"


class FinalJob(msgspec.Struct, frozen=True, array_like=True):
    """Where a job is at the end."""

    state: JobState
    attempts: int = 0
    reason: str | None = None


def crashes_in(reason: str | None) -> int | None:
    """Return for how many crashes a job was buried, by a sweep; None if for something else."""
    found = re.match(r"its worker died (?:once|(\d+) times) ", reason or "")
    return None if found is None else int(found[1] or 1)


class Final(msgspec.Struct, frozen=True, kw_only=True):
    """The store's last word."""

    settings: Settings
    store: str  # which sort
    faults: tuple[str, ...]  # those that were wanted, and can be
    left_out: tuple[str, ...] = ()  # those that were wanted, and lack what they need
    is_drained: bool
    is_interrupted: bool
    seconds: float
    jobs: dict[UUID, FinalJob]
    effects: tuple[tuple[UUID, int], ...]  # job and token, a row each
    check: tuple[str, ...]
    ends: dict[str, int]  # exit codes by process

    def write(self, folder: Path) -> None:
        """Keep it in a folder. The store's address stays out: it may hold a password."""
        settings = msgspec.structs.replace(self.settings, store="")
        kept = msgspec.structs.replace(self, settings=settings)
        (folder / NAME).write_bytes(msgspec.json.encode(kept))

    @classmethod
    def read(cls, folder: Path) -> Final:
        """Return what was kept in a folder."""
        try:
            return msgspec.json.decode((folder / NAME).read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError) as error:
            raise StoreError(
                f"{folder} holds no history that can be checked: {error}. Name a folder that "
                f"`inturn verify --keep FOLDER` made."
            ) from error


async def read_jobs(store: Store, settings: Settings) -> dict[UUID, FinalJob]:
    """Return every job of a run, with its state."""
    return {
        id: job
        for queue in (settings.queue, settings.rounds)
        async for id, job in _jobs_of(store, queue)
    }


async def _jobs_of(store: Store, queue: str) -> AsyncIterator[tuple[UUID, FinalJob]]:
    cursor: str | None = None
    while True:
        page = await store.jobs(queue=queue, cursor=cursor, rows_max=ROWS_MAX)
        for view in page.rows:
            yield view.job.id, FinalJob(view.state, view.attempt, view.reason)
        if (cursor := page.cursor) is None:
            return


async def read_effects(store: Store, settings: Settings) -> tuple[tuple[UUID, int], ...]:
    """Return the rows that effects wrote."""
    async with store.transaction() as transaction:
        rows = await transaction.execute(f"select job, token from {settings.table}")
    return tuple((UUID(str(job)), int(token)) for job, token in rows)
