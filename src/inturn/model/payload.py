"""Payloads: JSON text that both stores can keep and give back unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec

from inturn.model import bounds
from inturn.model.errors import InvalidPayload, PayloadTooLarge

_NOT_A_NUMBER = "NaN and Infinity are not JSON: use null or a string"
_decode = msgspec.json.Decoder().decode


def encode_payload(
    value: Any,
    *,
    what: str = "payload",
    other: Callable[[Any], Any] | None = None,
    is_steady: bool = False,
) -> str:
    """Turn a value into the JSON text of a payload, or say why it cannot be one.

    ``other`` turns values of types that are not known here into ones that are. ``is_steady``: the
    same text in every process for the same value. Sets and dicts are sorted, unless their members
    cannot be compared.
    """
    try:
        encoded = _sorted(value, other) if is_steady else msgspec.json.encode(value, enc_hook=other)
        # What is not a number is written as null, so that most values need no second look.
        is_finite = b"null" not in encoded or not _has_not_a_number(_plain(value, other))
    except RecursionError as error:
        raise _nested_too_deeply(what) from error
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidPayload(
            f"the {what} cannot be written as JSON: {error}. Use JSON's own types, dataclasses, "
            f"dates, UUIDs or decimals."
        ) from error
    if not is_finite:
        raise InvalidPayload(f"the {what} holds a number that is not finite. {_NOT_A_NUMBER}.")
    text = encoded.decode()
    if not _is_plainly_good(encoded):
        check_payload(text, what=what)
    return text


def _sorted(value: Any, other: Callable[[Any], Any] | None) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=other, order="deterministic")
    except TypeError:
        return msgspec.json.encode(value, enc_hook=other)


def _is_plainly_good(encoded: bytes) -> bool:
    """Say whether JSON that we wrote ourselves is surely neither too large nor too deep, and has
    nothing that a database cannot keep.
    """
    return (
        len(encoded) <= bounds.PAYLOAD_BYTES_MAX
        and encoded.count(b"[") + encoded.count(b"{") <= bounds.PAYLOAD_NESTING_MAX
        and b"\\u0000" not in encoded
    )


def check_payload(text: str, *, what: str = "payload") -> None:
    """Refuse text that is not JSON, is too large, or has what a database cannot keep."""
    if type(text) is not str:
        raise InvalidPayload(f"the {what} must be JSON text, not {type(text).__name__}.")
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPayload(
            f"the {what} holds a lone surrogate at character {error.start}: it is not text that "
            f"can be written as UTF-8. Decode the bytes it came from properly."
        ) from error
    if len(encoded) > bounds.PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(
            f"the {what} has {len(encoded):,} bytes; the bound is {bounds.PAYLOAD_BYTES_MAX:,}. "
            f"Keep large things in a file or a bucket and pass their name."
        )
    try:
        value = _decode(encoded)
    except RecursionError as error:
        raise _nested_too_deeply(what) from error
    except msgspec.ValidationError as error:
        raise _number_too_large(what, str(error)) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise _not_json(what, text, error) from error
    if text.count("[") + text.count("{") > bounds.PAYLOAD_NESTING_MAX and _is_deep(value):
        raise _nested_too_deeply(what)
    if "\\u0000" in text and _has_nul(value):
        raise InvalidPayload(
            f"the {what} holds the character NUL (U+0000), which PostgreSQL cannot keep in JSON. "
            f"Leave it out, or send the bytes as base64."
        )


def _nested_too_deeply(what: str) -> InvalidPayload:
    return InvalidPayload(
        f"the {what} is nested more than {bounds.PAYLOAD_NESTING_MAX} deep, or holds itself. "
        f"Make it flatter, or send a part of it as text."
    )


def _number_too_large(what: str, said: str) -> InvalidPayload:
    """Say which number is too large: msgspec gives no other reason for JSON of any type."""
    whole = said.startswith("Integer")
    sort = (
        "a whole number of more than 4,300 digits" if whole else "a number too large for a double"
    )
    _, at, place = said.partition(" - at ")
    return InvalidPayload(
        f"the {what} holds {sort}{', at ' if at else ''}{place}. Send it as text."
    )


def _not_json(what: str, text: str, error: Exception) -> InvalidPayload:
    if re.search(r"\\u[dD][89a-fA-F]", text):
        return InvalidPayload(
            f"the {what} holds half of a surrogate pair (such as \\ud800 alone), or is "
            f"malformed elsewhere: {error}. Decode the bytes it came from properly."
        )
    hint = f" ({_NOT_A_NUMBER})" if re.search(r"NaN|Infinity", text) else ""
    return InvalidPayload(f"the {what} is not JSON: {error}{hint}.")


def _is_deep(value: Any) -> bool:
    """Say whether a value is nested more deeply than its bound; no recursion, whatever it is."""
    depth, level = 0, [value]
    while level and depth <= bounds.PAYLOAD_NESTING_MAX:
        inner = [one for one in level if isinstance(one, dict | list)]
        depth += bool(inner)
        level = [part for one in inner for part in (one.values() if type(one) is dict else one)]
    return depth > bounds.PAYLOAD_NESTING_MAX


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any("\x00" in key or _has_nul(one) for key, one in value.items())
    if isinstance(value, list):
        return any(_has_nul(one) for one in value)
    return False


def _plain(value: Any, other: Callable[[Any], Any] | None) -> Any:
    """Return a value that could be written as dicts, lists and their like, its numbers as they are.

    What ``other`` has written as JSON itself it has looked through itself.
    """

    def opened(one: Any) -> Any:
        found = None if other is None else other(one)
        return None if isinstance(found, msgspec.Raw) else found

    return msgspec.to_builtins(value, enc_hook=opened)


def _has_not_a_number(value: Any) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    if isinstance(value, dict):
        return any(_has_not_a_number(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(_has_not_a_number(one) for one in value)
    return False
