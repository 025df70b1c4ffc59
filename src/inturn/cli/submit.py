"""``inturn submit``: submit one job."""

from __future__ import annotations

import sys
from typing import Annotated, BinaryIO

import msgspec
import typer

from inturn.cli.call import Call, command
from inturn.cli.ids import JobName, find_jobs, job_name
from inturn.cli.jobs import ID
from inturn.cli.options import seconds_from
from inturn.model import bounds
from inturn.model.errors import InvalidPayload, PayloadTooLarge
from inturn.model.job import NewJob, Ticket
from inturn.store.protocol import Store

KindArgument = Annotated[
    str, typer.Argument(metavar="KIND", help="What is to be done.", show_default=False)
]
PayloadOption = Annotated[
    str,
    typer.Option(metavar="JSON|@FILE|-", help="JSON text, a file with it, or stdin."),
]
KeyOption = Annotated[
    str | None, typer.Option(help="Run in turn with this key's jobs.", show_default=False)
]
DelayOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.0, bounds.DELAY_SECONDS_MAX),
        help="Not before then.",
        show_default="0s",
    ),
]
DedupeOption = Annotated[
    str | None, typer.Option(help="The same again is the first one.", show_default=False)
]
WindowOption = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.001, bounds.DEDUPE_SECONDS_MAX),
        help="How long --dedupe lasts.",
        show_default="1d",
    ),
]
RoundOption = Annotated[int, typer.Option(help="Wait until the gate is open so far.")]
AfterOption = Annotated[
    list[JobName] | None,
    typer.Option(
        metavar="JOB", parser=job_name, help="Wait for this job; repeatable.", show_default=False
    ),
]
AttemptsOption = Annotated[
    int, typer.Option(min=1, max=bounds.ATTEMPTS_MAX, help="How often to try.")
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        parser=seconds_from(0.001, bounds.TIMEOUT_SECONDS_MAX),
        help="How long an attempt may take; else as declared.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Make this a command of ``app``."""
    command(
        app,
        "submit",
        """inturn submit mail --queue outbox --payload '{"to": "a@b.c"}'""",
        "inturn submit order --key customer-7 --payload @order.json",
        f"inturn submit receipt --after {ID}",
    )(_submit)


def _submit(
    call: Call,
    kind: KindArgument,
    queue: Annotated[str, typer.Option(help="Where.")] = "default",
    payload: PayloadOption = "null",
    key: KeyOption = None,
    priority: Annotated[int, typer.Option(help="Higher first.")] = 0,
    delay: DelayOption = 0.0,
    dedupe: DedupeOption = None,
    dedupe_seconds: WindowOption = bounds.DEDUPE_SECONDS_DEFAULT,
    round: RoundOption = 0,
    after: AfterOption = None,
    attempts: AttemptsOption = bounds.ATTEMPTS_DEFAULT,
    timeout: TimeoutOption = None,
) -> None:
    """Submit a job, and print its id."""
    job = NewJob(
        kind=kind,
        queue=queue,
        payload=read_payload(payload),
        key=key,
        priority=priority,
        delay_seconds=delay,
        dedupe=dedupe,
        dedupe_seconds=dedupe_seconds,
        round=round,
        attempts_max=attempts,
        timeout_seconds=timeout,
    )

    async def submitted(store: Store) -> Ticket:
        first = frozenset(await find_jobs(store, after or ()))
        [ticket] = await store.enqueue([msgspec.structs.replace(job, after=first)])
        return ticket

    ticket = call.run(submitted)
    call.out.answer(msgspec.structs.asdict(ticket), str(ticket.id))
    if ticket.duplicate and not call.out.as_json:
        print("This dedupe key was known: that is the first job's id.", file=sys.stderr)


def read_payload(given: str) -> str:
    """Return the JSON text that was given: as it is, from stdin (-), or from a file (@name)."""
    if given == "-":
        if found := _text(_bounded(sys.stdin.buffer), "stdin"):
            return found
        raise InvalidPayload("nothing was given on stdin. A payload is JSON: null is the least.")
    if not given.startswith("@"):
        return given
    name = given[1:]
    try:
        with open(name, "rb") as file:
            content = _bounded(file)
    except OSError as error:
        raise InvalidPayload(
            f"the payload's file cannot be read: {error}. Give JSON text, @FILE, or - for stdin."
        ) from error
    return _text(content, name)


def _bounded(file: BinaryIO) -> bytes:
    content = file.read(bounds.PAYLOAD_BYTES_MAX + 1)
    if len(content) > bounds.PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(
            f"the payload has more than {bounds.PAYLOAD_BYTES_MAX:,} bytes, the bound. "
            f"Keep large things in a file or a bucket and pass their name."
        )
    return content


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidPayload(f"{name} is not UTF-8 text: {error}. A payload is JSON.") from error
