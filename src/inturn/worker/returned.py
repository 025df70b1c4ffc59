"""What a handler returned: text that can be kept, or the error that says why it cannot be."""

from __future__ import annotations

from types import CoroutineType
from typing import Any

from inturn.model.errors import InvalidPayload, PayloadTooLarge
from inturn.policy.raised import describe
from inturn.policy.retry import Reject
from inturn.queue.arguments import encode_result


def check_awaited(kind: str, value: Any) -> None:
    """Refuse a coroutine: of an attempt that only made one, the work was not done.

    By its type and not by ``isinstance``, which asks a value for its class: it may raise anything.
    """
    if type(value) is CoroutineType:
        value.close()
        raise Reject(
            f"{value.__qualname__}() is an `async def` that was called and not awaited, so that "
            f"nothing of it ran: job {kind!r} returned its coroutine. If a decorator stands "
            f"between it and @app.job, make what that returns an `async def`, too."
        )


def encoded(value: Any) -> str | None:
    """Return what a handler returned as JSON text.

    Raises ``InvalidPayload`` or ``PayloadTooLarge``, whatever the value itself raises when it is
    looked at, in a property or a validator of its own.
    """
    try:
        return encode_result(value)
    except (InvalidPayload, PayloadTooLarge):
        raise
    except BaseException as error:
        raise InvalidPayload(f"the result cannot be written as JSON: {describe(error)}.") from error
