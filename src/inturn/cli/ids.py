"""Ids of jobs as they are typed: whole, or as much of the beginning as only one job has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from string import hexdigits
from typing import Annotated, TypeVar
from uuid import UUID

import msgspec
import typer

from inturn.cli.call import Call
from inturn.model.errors import BadInput, NotFound
from inturn.store.paging import encode_cursor
from inturn.store.protocol import Store

DIGITS_MIN = 8  # fewer say only in which minutes a job was accepted, and are soon mistyped
CUT = "…"  # how a table ends what it has shortened, and so what is pasted from one

Answer = TypeVar("Answer")


def job_name(text: str) -> JobName:
    """Return the id that a text spells or begins to spell, or refuse it."""
    digits = text.removesuffix(CUT).replace("-", "").lower()
    if not set(digits) <= set(hexdigits) or len(digits) >= 32:
        return JobName(_whole_id(text).hex)
    if len(digits) < DIGITS_MIN:
        raise typer.BadParameter(
            f"{text!r} is not the id of a job, and too short for the beginning of one: at least "
            f"{DIGITS_MIN} characters are needed. `inturn jobs list` shows ids."
        )
    return JobName(digits)


class JobName(msgspec.Struct, frozen=True):
    """The first digits of a job's id, or all of them."""

    digits: str

    async def find(self, store: Store) -> UUID:
        """Return the whole id; refuse a beginning that is nobody's, or not only one job's."""
        lowest = UUID(self.digits.ljust(32, "0"))
        if len(self.digits) == 32:
            return lowest
        before = encode_cursor(UUID(int=lowest.int - 1)) if lowest.int else None
        page = await store.jobs(cursor=before, rows_max=2)  # they come in the order of their ids
        found = [view.job.id for view in page.rows if view.job.id.hex.startswith(self.digits)]
        if not found:
            raise NotFound(
                f"there is no job here whose id begins with {self.digits}. `inturn jobs list` "
                f"shows those there are."
            )
        if len(found) > 1:
            raise BadInput(
                f"{' and '.join(map(str, found))} both begin with {self.digits}. Write more of the "
                f"id."
            )
        return found[0]


async def find_jobs(store: Store, jobs: Iterable[JobName]) -> list[UUID]:
    """Return the ids that are named, each once; of beginnings, all must be found."""
    return list(dict.fromkeys([await job.find(store) for job in jobs]))


def on_job(
    call: Call, job: JobName, verb: Callable[[Store, UUID], Awaitable[Answer]]
) -> tuple[UUID, Answer]:
    """Run a verb on the job that is named; return its whole id, too."""

    async def found(store: Store) -> tuple[UUID, Answer]:
        id = await job.find(store)
        return id, await verb(store, id)

    return call.run(found)


def _whole_id(text: str) -> UUID:
    try:
        return UUID(text.removesuffix(CUT))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not the id of a job, which looks like "
            f"0199f3a2-7c1e-7abc-8def-0123456789ab. `inturn jobs list` shows ids."
        ) from None


JobArgument = Annotated[
    JobName,
    typer.Argument(
        metavar="JOB",
        parser=job_name,
        help=f"The job's id, or its beginning: {DIGITS_MIN} characters or more.",
        show_default=False,
    ),
]
JobArguments = Annotated[
    list[JobName] | None,
    typer.Argument(
        metavar="JOB", parser=job_name, help="Ids of jobs, or their beginnings.", show_default=False
    ),
]
