"""``inturn submit``: submit one job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from inturn.cli.options import seconds_from
from inturn.cli.session import Session, find_job
from inturn.model import bounds
from inturn.model.errors import BadInput, InvalidPayload, PayloadMismatch
from inturn.model.job import NewJob, Ticket
from inturn.model.spelling import did_you_mean
from inturn.store.store import Store

if TYPE_CHECKING:
    from inturn.queue.job import Job

EXAMPLES = (
    """inturn submit pay -A shop:app --payload '{"customer": 7}'""",
    "inturn submit pay -A shop:app --key customer-7 --payload @pay.json",
)

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="The job's name in the app.")]
PayloadOption = Annotated[
    str, typer.Option(metavar="JSON|@FILE|-", help="Arguments as JSON, a file, or - for stdin.")
]
QueueOption = Annotated[
    str | None, typer.Option(metavar="QUEUE", help="Queue. Otherwise the job's own.")
]
KeyOption = Annotated[
    str | None, typer.Option(metavar="KEY", help="Run in order with jobs of this key.")
]
DelayOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.0, bounds.DELAY_SECONDS_MAX),
        help="Wait this long before running.",
        show_default=False,
    ),
]
DedupeOption = Annotated[
    str | None, typer.Option(metavar="KEY", help="Skip if a job with this dedupe key exists.")
]
WindowOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.001, bounds.DEDUPE_SECONDS_MAX),
        help="How long --dedupe is remembered (1d).",
        show_default=False,
    ),
]
RoundOption = Annotated[
    int, typer.Option(metavar="N", help="Wait until the queue's gate opens this round.")
]
AfterOption = Annotated[
    list[str] | None, typer.Option(metavar="JOB", help="Wait until this job is done; repeatable.")
]
AttemptsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=bounds.ATTEMPTS_MAX,
        metavar="N",
        help="Give up after this many tries. Otherwise the job's own.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.001, bounds.TIMEOUT_SECONDS_MAX),
        help="Stop an attempt after this long. Otherwise the job's own.",
    ),
]


def submit(
    context: typer.Context,
    kind: KindArgument,
    payload: PayloadOption = "null",
    queue: QueueOption = None,
    key: KeyOption = None,
    priority: Annotated[int, typer.Option(metavar="N", help="Higher runs first.")] = 0,
    delay: DelayOption = 0.0,
    after: AfterOption = None,
    dedupe: DedupeOption = None,
    dedupe_seconds: WindowOption = bounds.DEDUPE_SECONDS_DEFAULT,
    round: RoundOption = 0,
    attempts: AttemptsOption = None,
    timeout: TimeoutOption = None,
) -> None:
    """Submit a job and print its id."""
    session: Session = context.obj
    declared = None
    if session.app is not None:
        declared = session.app.jobs.get(kind)
        if declared is None:
            raise BadInput(
                f"{session.target} has no job {kind!r}.{did_you_mean(kind, session.app.jobs)} "
                f"It has {', '.join(session.app.jobs) or 'none'}."
            )
    new = NewJob(
        kind=kind,
        queue=queue or (declared.options.queue if declared else "default"),
        payload=read_payload(payload),
        key=key,
        priority=priority,
        delay_seconds=delay,
        dedupe=dedupe,
        dedupe_seconds=dedupe_seconds,
        round=round,
        attempts_max=attempts
        or (declared.retry.attempts_max if declared else bounds.ATTEMPTS_DEFAULT),
        timeout_seconds=timeout or (declared.timeout if declared else None),
    )

    if declared is not None:
        _check_arguments(declared, new.payload)

    async def submitted(store: Store) -> Ticket:
        first = frozenset([await find_job(store, job) for job in after or ()])
        [ticket] = await store.enqueue([msgspec.structs.replace(new, after=first)])
        return ticket

    ticket = session.run(submitted, makes_file=declared is not None)
    session.answer(msgspec.structs.asdict(ticket), str(ticket.id))
    if ticket.duplicate and not session.as_json:
        print("A job with this dedupe key exists: that is its id.", file=sys.stderr)


def _check_arguments(declared: Job[..., Any], payload: str) -> None:
    """Refuse a payload that the job's handler could not be called with."""
    from inturn.queue.arguments import plainly

    try:
        declared.arguments.decode(payload)
    except PayloadMismatch as error:
        # Text that is not JSON at all is refused by the store, as it is without an App.
        if isinstance(error.__cause__, msgspec.ValidationError):
            raise BadInput(f"job {declared.kind!r}: {plainly(error.__cause__)}.") from None


def read_payload(given: str) -> str:
    """Return the JSON text that was given: as it is, from stdin (-), or from a file (@name)."""
    if given != "-" and not given.startswith("@"):
        return given
    try:
        content = sys.stdin.buffer.read() if given == "-" else Path(given[1:]).read_bytes()
        return content.decode("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        name = "stdin" if given == "-" else given[1:]
        raise InvalidPayload(f"cannot read the payload from {name}: {error}.") from error
