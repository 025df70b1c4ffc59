"""Payloads: JSON text that both stores can keep and give back unchanged."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from inturn.model import bounds
from inturn.model.errors import InvalidPayload, PayloadTooLarge

_NOT_A_NUMBER = "NaN and Infinity are not JSON: use null or a string"
_decode = msgspec.json.Decoder().decode


def encode_payload(value: Any) -> str:
    """Turn a value into the JSON text of a payload, or say why it cannot be one."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidPayload(
            f"the payload cannot be written as JSON: {error}. Use JSON's own types, dataclasses, "
            f"dates, UUIDs or decimals."
        ) from error
    if _has_not_a_number(value):
        raise InvalidPayload(f"the payload holds a number that is not finite. {_NOT_A_NUMBER}.")
    text = encoded.decode()
    check_payload(text)
    return text


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
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        hint = f" ({_NOT_A_NUMBER})" if re.search(r"NaN|Infinity", text) else ""
        raise InvalidPayload(f"the {what} is not JSON: {error}{hint}.") from error
    if "\\u0000" in text and _has_nul(value):
        raise InvalidPayload(
            f"the {what} holds the character NUL (U+0000), which PostgreSQL cannot keep in JSON. "
            f"Leave it out, or send the bytes as base64."
        )


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any("\x00" in key or _has_nul(one) for key, one in value.items())
    if isinstance(value, list):
        return any(_has_nul(one) for one in value)
    return False


def _has_not_a_number(value: Any) -> bool:
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))
    if isinstance(value, dict):
        return any(_has_not_a_number(one) for one in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_has_not_a_number(one) for one in value)
    return False
