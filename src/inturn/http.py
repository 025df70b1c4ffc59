"""Calls to outside APIs from handlers: one effect for each operation, however often it is tried."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from inturn.model.error import BadInput, Portable
from inturn.policy.dedupe import canonical
from inturn.policy.retry import Reject, RetryLater
from inturn.queue.context import Context

try:
    import httpx
except ImportError as error:
    raise ImportError("install inturn with its extra `http` to use inturn.http.") from error

IDEMPOTENCY_HEADER = "Idempotency-Key"
CORRELATION_HEADER = "X-Correlation-ID"
RETRY_AFTER_SECONDS_MAX = 86_400.0
LIMITED_SECONDS_MIN, LIMITED_SECONDS_DEFAULT = 1.0, 60.0  # a job waits after a 429
SAID_CHARS_MAX = 1_200  # of a request and its response, in what a dead letter keeps
MASKED = "***"

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_TRIED_AGAIN = frozenset({401, 403, 408, 425})  # of the 4xx, besides 429
_SECRET = re.compile(  # it looks from the beginning of a word only, for a body may be one long word
    r'((?<![\w-])[\w-]*(?:token|secret|password|api[_-]?key|authorization|cookie)"?\s*[:=]\s*)'
    r'("(?:\\.|[^"\\])*(?:"|$)|(?:(?:Bearer|Basic)\s+)?[^\s&,;}"]+)',
    re.IGNORECASE,
)


class CallFailed(Portable):
    """An outside API did not do what it was asked, and the job is to be tried again."""


class Client:
    """An HTTP client for handlers. Make one for each outside API, at the top of a module.

    ``headers`` go with every request. ``secrets``: texts that must not stand in a log or a dead
    letter; the values of headers such as ``Authorization`` and ``Cookie``, and the password of the
    URL, are known to be such. All else is httpx's: ``timeout``, ``auth``, ``verify``, …

    It counts nothing: how often the API is called is the limit of the queue its jobs run in.
    """

    def __init__(
        self,
        base_url: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | httpx.Timeout = 30.0,
        secrets: Iterable[str] = (),
        **options: Any,
    ) -> None:
        self._options = {**options, "base_url": base_url, "headers": headers, "timeout": timeout}
        self._secrets = {one for one in secrets if one}
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            WeakKeyDictionary()
        )

    async def get(self, ctx: Context, url: str, **options: Any) -> httpx.Response:
        """Send a GET: ``request`` says the rest."""
        return await self.request(ctx, "GET", url, **options)

    async def post(self, ctx: Context, url: str, **options: Any) -> httpx.Response:
        """Send a POST: ``request`` says the rest."""
        return await self.request(ctx, "POST", url, **options)

    async def put(self, ctx: Context, url: str, **options: Any) -> httpx.Response:
        """Send a PUT: ``request`` says the rest."""
        return await self.request(ctx, "PUT", url, **options)

    async def patch(self, ctx: Context, url: str, **options: Any) -> httpx.Response:
        """Send a PATCH: ``request`` says the rest."""
        return await self.request(ctx, "PATCH", url, **options)

    async def delete(self, ctx: Context, url: str, **options: Any) -> httpx.Response:
        """Send a DELETE: ``request`` says the rest."""
        return await self.request(ctx, "DELETE", url, **options)

    async def request(
        self,
        ctx: Context,
        method: str,
        url: str,
        *,
        operation: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> httpx.Response:
        """Send a request as part of a job, and return the response if it is a success.

        What writes carries an ``Idempotency-Key``: a digest of the job's id, the method, the URL
        and the body, the same in every attempt. Where a body differs from one attempt to the next
        (it holds the time, say), name the ``operation``, and the key is made of that instead; also
        where one job sends the same twice on purpose.
        ``X-Correlation-ID`` is the job's id.

        Any other answer is an error that ends the attempt. A 4xx will not get better: ``Reject``.
        401, 403, 408, 425, 429, a 409 on a write, a 5xx, a timeout and a lost connection are tried
        again, when ``Retry-After`` says if there is one. A 429 uses no attempt, for nothing was
        done; where it does not say when, the job waits for a minute.
        """
        client = self._client()
        request = client.build_request(method, url, headers=headers, **_of_request(options))
        is_write = request.method not in _READS
        request.headers.setdefault(CORRELATION_HEADER, str(ctx.id))
        if is_write:
            key = idempotency_key(ctx, request, operation)
            request.headers.setdefault(IDEMPOTENCY_HEADER, key)
        try:
            response = await client.send(request, **options)
            if response.is_success or response.status_code == httpx.codes.NOT_MODIFIED:
                return response
            await response.aread()  # also with stream=True: the error keeps it
        except httpx.TransportError as error:
            said = f"{type(error).__name__}: {str(error) or 'no answer in time'}"
            raise CallFailed(self._said(request, said)) from None
        raise self._error(request, response, is_write=is_write)

    def _error(
        self, request: httpx.Request, response: httpx.Response, *, is_write: bool
    ) -> Exception:
        """Return what a job is to end with after a response that is no success."""
        status, body = response.status_code, response.text.strip()
        said = f"HTTP {status} {response.reason_phrase}".rstrip()
        said = self._said(request, f"{said}: {body}" if body else said)
        after = retry_after(response.headers.get("retry-after"), response.headers.get("date"))
        if status == httpx.codes.TOO_MANY_REQUESTS:
            after = LIMITED_SECONDS_DEFAULT if after is None else max(after, LIMITED_SECONDS_MIN)
            return RetryLater(after=after, reason=said, counted=False)
        if status not in _TRIED_AGAIN and status < 500 and not (status == 409 and is_write):
            return Reject(said)
        return CallFailed(said) if after is None else RetryLater(after=after, reason=said)

    def _said(self, request: httpx.Request, text: str) -> str:
        """Return what came of a request, without secrets and not too long."""
        text = f"{request.method} {request.url}: {text}"
        secrets = {*self._secrets, request.url.password}
        for name, value in request.headers.items():
            if _SECRET.match(f"{name}: x"):
                secrets |= {value, value.split()[-1]}
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = re.sub("".join(map(_spellings, secret)), MASKED, text)
        return _SECRET.sub(rf"\g<1>{MASKED}", text)[:SAID_CHARS_MAX]

    def _client(self) -> httpx.AsyncClient:
        """Return this loop's own: its connections cannot be used on another."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx.AsyncClient(**self._options)
        return self._clients[loop]

    async def close(self) -> None:
        """Close this loop's connections: ``app.on_stop(client.close)``."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def idempotency_key(ctx: Context, request: httpx.Request, operation: str | None = None) -> str:
    """Return what names one operation of a job: the same in every attempt, another in every job."""
    if operation is not None:
        return hashlib.sha256(canonical([str(ctx.id), operation])).hexdigest()
    if not isinstance(request.stream, httpx.ByteStream):
        raise BadInput(
            "a body that is streamed or in parts is not the same in every attempt: name what the "
            "request does, with operation=…."
        )
    body = request.read()
    if request.headers.get("content-type") == "application/json":
        body = canonical(msgspec.json.decode(body))
    parts = [str(ctx.id), request.method, str(request.url), hashlib.sha256(body).hexdigest()]
    return hashlib.sha256(canonical(parts)).hexdigest()


def retry_after(value: str | None, date: str | None = None) -> float | None:
    """Return the seconds that ``Retry-After`` asks for: a number, or a date.

    A date is read against the server's own clock, its ``Date``, where it says that.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = _time_of(value)
            now = datetime.now(UTC) if date is None else _time_of(date)
        except ValueError:
            return None
        seconds = (until - now).total_seconds()
    if not seconds >= 0:  # nan, or past
        return 0.0
    return min(seconds, RETRY_AFTER_SECONDS_MAX)


def _spellings(character: str) -> str:
    """Return a pattern for a character as it may stand in a URL, in JSON, or plainly."""
    quoted = "".join(f"%{byte:02x}" for byte in character.encode(errors="replace"))
    utf_16 = character.encode("utf-16-be", errors="replace").hex()
    escaped = "".join(rf"\u{utf_16[at : at + 4]}" for at in range(0, len(utf_16), 4))
    of_query = "+" if character == " " else character
    exact = "|".join(map(re.escape, (character, f"\\{character}", of_query)))
    return f"(?:{exact}|(?i:{re.escape(quoted)}|{re.escape(escaped)}))"


def _time_of(value: str) -> datetime:
    at = parsedate_to_datetime(value)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


_SENT = frozenset({"stream", "auth", "follow_redirects"})


def _of_request(options: dict[str, Any]) -> dict[str, Any]:
    """Take out of options what a request is built from; leave what says how to send it."""
    return {name: options.pop(name) for name in list(options) if name not in _SENT}
