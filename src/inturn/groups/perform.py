"""Carrying out one action of a step, and reading what a verify answers."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

from inturn.groups import programs, sql_nodes
from inturn.groups.errors import NO_ADDRESS, ActionFailed, NothingDone
from inturn.groups.model import (
    TIMEOUT_SECONDS_DEFAULT,
    Action,
    Command,
    Effect,
    JobCall,
    Request,
    Sql,
    Step,
)
from inturn.policy.retry import Reject
from inturn.queue.context import Context

BODY_CHARS_MAX = 500  # of a response, in an error
IDEMPOTENCY_HEADER = "Idempotency-Key"

_NAMED = re.compile(r"\$\{([^}]+)\}")
_TO_TRY_AGAIN = frozenset({408, 409, 423, 425, 429})  # of the 4xx
_GONE = frozenset({404, 410})
_EXIT_CODES = {0: Effect.APPLIED, 1: Effect.NOT_APPLIED, 2: Effect.RUNNING}


class Answer(NamedTuple):
    """What a verify found out, and what it saw."""

    effect: Effect
    seen: str = ""

    def __str__(self) -> str:
        return f"{self.effect} ({self.seen})" if self.seen else str(self.effect)


async def perform(
    ctx: Context, action: Action, address: str | None, timeout: float | None, *, step: str = ""
) -> None:
    """Carry out an action. It returns when it is applied. ``step``: of which, in all the world.

    Raises ``Reject`` when it is not and never will be, ``NothingDone`` when it is not and may be
    tried again, and anything else, such as ``TimeoutError``, when that is not known.
    """
    match action:
        case JobCall():
            await ctx.call(action.kind, action.payload, timeout=timeout)
        case Sql(text):
            await _in_time(timeout, sql_nodes.execute(resolved(address), text, step))
        case Command(arguments):
            ended = await _in_time(timeout, programs.run(arguments))
            if ended.code:
                raise ActionFailed(f"{arguments[0]!r} {ended}")
        case Request():
            await _in_time(timeout, _request(ctx, action, address))


async def ask(ctx: Context, action: Action, address: str | None, timeout: float | None) -> Answer:
    """Ask a verify. Whatever it raises says that it failed itself."""
    match action:
        case JobCall():
            return _of_value(await ctx.call(action.kind, action.payload, timeout=timeout))
        case Sql(text):
            value = await _in_time(timeout, sql_nodes.first_value(resolved(address), text))
            return _of_sql(value)
        case Command(arguments):
            ended = await _in_time(timeout, programs.run(arguments))
            return Answer(_EXIT_CODES.get(ended.code, Effect.CANNOT_TELL), str(ended))
        case Request():
            status, _ = await _in_time(timeout, _response(action, address, {}))
            return Answer(_of_status(status), f"HTTP {status}")


async def still_runs(step: Step, address: str | None, where: str) -> bool:
    """Say whether a node knows that an attempt at a step runs there: PostgreSQL does."""
    if not any(isinstance(action, Sql) for action in (step.do, step.undo)):
        return False
    running = sql_nodes.still_runs(resolved(address), where)
    return bool(await _in_time(TIMEOUT_SECONDS_DEFAULT, running))


def resolved(address: str | None, *, what: str = "the address of its node") -> str:
    """Return an address with ``${NAME}`` read from the environment, ``${file:/path}`` from a file.

    It is read where the worker runs, and never kept.
    """

    def read(found: re.Match[str]) -> str:
        name = found[1]
        try:
            if name.startswith("file:"):
                return Path(name.removeprefix("file:")).read_text(encoding="utf-8").strip()
            return os.environ[name]
        except (KeyError, OSError, UnicodeDecodeError):
            raise NothingDone(
                f"{what} names ${{{name}}}, which is not there where this worker runs"
            ) from None

    return _NAMED.sub(read, address or "")


async def _in_time(timeout: float | None, work: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(timeout) as timer:
            return await work
    except TimeoutError as error:
        if timer.expired():
            raise TimeoutError(f"it took longer than {timeout:g} s") from error
        raise


# HTTP


async def _request(ctx: Context, action: Request, address: str | None) -> None:
    status, body = await _response(action, address, {IDEMPOTENCY_HEADER: str(ctx.id)})
    said = f"{action.method} {action.url}: HTTP {status} {body}".rstrip()
    if status == 202:  # accepted, which is not applied
        raise ActionFailed(said)
    if 200 <= status < 300 or (action.method == "DELETE" and status in _GONE):
        return
    if 400 <= status < 500 and status not in _TO_TRY_AGAIN:
        raise Reject(said)
    raise ActionFailed(said)


async def _response(
    action: Request, address: str | None, headers: dict[str, str]
) -> tuple[int, str]:
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise NothingDone("requests need httpx: install inturn with its extra 'groups'") from error
    url = resolved(action.url, what="the URL of the request")
    if url.startswith("/"):
        url = resolved(address).rstrip("/") + url
    for name, value in action.headers.items():
        headers[name] = resolved(value, what=f"header {name}")
    content = None if bytes(action.json) == b"null" else bytes(action.json)
    if content is not None:
        headers.setdefault("Content-Type", "application/json")
    try:
        async with httpx.AsyncClient(timeout=None) as client:
            response = await client.request(action.method, url, content=content, headers=headers)
    except (
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.UnsupportedProtocol,
    ) as error:
        raise NothingDone(f"{action.method} {action.url}: {error}") from error
    except httpx.InvalidURL:
        raise NothingDone(NO_ADDRESS) from None  # the error might name a part of a password
    return response.status_code, response.text[:BODY_CHARS_MAX]


def _of_status(status: int) -> Effect:
    if status == 202:
        return Effect.RUNNING
    if 200 <= status < 300:
        return Effect.APPLIED
    return Effect.NOT_APPLIED if status in _GONE else Effect.CANNOT_TELL


# Answers


def _of_value(value: Any) -> Answer:
    if isinstance(value, bool):
        return Answer(Effect.APPLIED if value else Effect.NOT_APPLIED)
    try:
        return Answer(Effect(value))
    except ValueError:
        raise ActionFailed(
            f"the verify returned {value!r}; it returns an inturn.Effect, or a bool"
        ) from None


def _of_sql(value: Any) -> Answer:
    if isinstance(value, str):
        if value not in list(Effect):
            raise ActionFailed(
                f"the verify answered {value[:BODY_CHARS_MAX]!r}; text must be one of "
                f"{', '.join(Effect)}"
            )
        return Answer(Effect(value))
    return Answer(Effect.APPLIED if value else Effect.NOT_APPLIED, f"{value!r}"[:BODY_CHARS_MAX])
