"""How the arguments of a handler become a payload, and come back as they were."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from inturn.model.errors import BadInput, PayloadMismatch, ResultMismatch
from inturn.model.payload import encode_payload
from inturn.model.spelling import job_name
from inturn.queue.argument_checks import is_model, lost_member, unreadable, written_model

Hints = Mapping[str, Any]

_decode = msgspec.json.Decoder().decode


class Arguments:
    """The parameters of one handler: what ``submit`` takes, what the payload holds.

    A payload is one JSON object, a member a parameter. A parameter with a default may be missing
    from it, and has the default of the handler that runs it, so that a new parameter with a default
    fits payloads that were accepted before it.
    """

    def __init__(
        self, function: Callable[..., Any], hints: Hints, *, kind: str, has_context: bool
    ) -> None:
        self._kind, self._name = kind, job_name(kind, function.__name__)
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[int(has_context) :]
        for parameter in parameters:
            _check_parameter(self._name, parameter)
        self._signature = signature.replace(parameters=parameters)
        self._names = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
        # So many arguments fill all parameters; none do, if one is to be named.
        self._places = len(parameters) if len(self._names) == len(parameters) else None
        self._positional = {
            one.name: one.default for one in parameters if one.kind is one.POSITIONAL_ONLY
        }
        self._optional = [one.name for one in parameters if one.default is not one.empty]
        try:
            fields = [_field(one, hints) for one in parameters]
            self._shape = msgspec.defstruct(
                f"{function.__name__} arguments", fields, kw_only=True, forbid_unknown_fields=True
            )
            self._decoder = msgspec.json.Decoder(self._shape, dec_hook=_decode_other)
        except (TypeError, NameError, RuntimeError) as error:  # the last for a name like __this
            raise BadInput(
                f"the parameters of job {self._name} cannot be kept as JSON: {error}. Annotate "
                f"them with JSON's own types, dataclasses, dates, UUIDs, decimals or models of "
                f"pydantic, of several models with pydantic.RootModel[One | Other]."
            ) from error
        for parameter in parameters:
            if parameter.default is parameter.empty:  # one with a default need not be submitted
                _check_readable(self._name, parameter.name, hints.get(parameter.name, Any))

    def encode(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_steady: bool = False
    ) -> str:
        """Return the payload of a call; refuse what the handler could not be called with.

        ``is_steady``: the same in every process, to be compared with that of another: for dedupe.
        """
        bound = self._bound(args, kwargs)
        payload = encode_payload(bound, other=encode_other, is_steady=is_steady)
        try:
            found = self._decoder.decode(payload)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise BadInput(f"job {self._name}: {plainly(error)}.") from error
        if "[" in payload or payload.count("{") > 1:  # else nothing in it has members
            self._check_whole(payload, found)
        return payload

    def _check_whole(self, payload: str, found: Any) -> None:
        """Refuse a call of which the handler would get less than was given."""
        again = msgspec.json.encode(found, enc_hook=written_model)
        if again == payload.encode():
            return
        if lost := lost_member(_decode(payload), _decode(again)):
            raise BadInput(
                f"job {self._name}: the handler would not get "
                f"{lost.removeprefix('.')!r}, which the annotation of that parameter does not "
                f"have. Annotate it with the type that is given, or give one that it has."
            )

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """Return the arguments by their names."""
        if not kwargs and len(args) == self._places:
            return dict(zip(self._names, args, strict=True))  # a fifth of the time of binding
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise BadInput(f"job {self._name}: {plainly(error)}.") from error

    def decode(self, payload: str) -> tuple[list[Any], dict[str, Any]]:
        """Return a payload's arguments, positional and by name. What has no payload has none."""
        try:
            found = self._decoder.decode("{}" if payload == "null" else payload)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise PayloadMismatch(self._kind, str(error), name=self._name) from error
        named = msgspec.structs.asdict(found)
        for name in self._optional:
            if named[name] is msgspec.UNSET:
                del named[name]
        if not self._positional:
            return [], named
        return [named.pop(name, default) for name, default in self._positional.items()], named


def plainly(error: Exception) -> str:
    """Return msgspec's "Expected `str`, got `int` - at `$.to`" as "to must be str, got int"."""
    said = str(error).replace("`", "")
    if found := re.fullmatch(r"Expected (.+), got (.+) - at \$\.(.+)", said):
        return f"{found[3]} must be {found[1]}, got {found[2]}"
    if found := re.fullmatch(r"Object missing required field (\w+)", said):
        return f"{found[1]} is missing"
    if found := re.fullmatch(r"Object contains unknown field (\w+)", said):
        return f"it has no parameter {found[1]}"
    if found := re.fullmatch(r"Expected object, got (\w+)", said):
        return f'its arguments must be a JSON object, such as {{"n": 1}}, not {found[1]}'
    return str(error)


def hints_of(function: Callable[..., Any], names: Mapping[str, Any]) -> Hints:
    """Return the annotations of a function, found among ``names`` where its module lacks them."""
    try:
        return typing.get_type_hints(function, localns=dict(names), include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise BadInput(
            f"an annotation of job {function.__name__!r} means nothing where the job is defined: "
            f"{error}. Import or define what it names before the job."
        ) from error


def encode_result(value: Any) -> str | None:
    """Return what a handler returned as JSON text; None if it returned nothing."""
    if value is None:
        return None
    return encode_payload(value, what="result", other=encode_other)


def decode_result(text: str, hint: Any) -> Any:
    """Return a result as the type that its handler says it returns."""
    try:
        return msgspec.json.decode(text, type=hint, dec_hook=_decode_other)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise ResultMismatch(str(error)) from error


def _check_parameter(name: str, parameter: inspect.Parameter) -> None:
    rest = {parameter.VAR_POSITIONAL: ("*", "a list"), parameter.VAR_KEYWORD: ("**", "a dict")}
    if parameter.kind in rest:
        stars, instead = rest[parameter.kind]
        raise BadInput(
            f"job {name} takes {stars}{parameter.name}: a payload has named parameters only. "
            f"Take {instead} instead."
        )


def _check_readable(name: str, parameter: str, hint: Any) -> None:
    """Refuse a parameter with which every submit would be refused."""
    if (why := unreadable(hint)) is not None:
        raise BadInput(
            f"job {name} can never be given its parameter {parameter!r}: {why}. Take JSON's own "
            f"types, dataclasses, dates, UUIDs, decimals or models of pydantic, and make the rest "
            f"of them in the handler."
        )


def _field(parameter: inspect.Parameter, hints: Hints) -> tuple[str, Any, Any] | tuple[str, Any]:
    hint = hints.get(parameter.name, Any)
    if parameter.default is parameter.empty:
        return parameter.name, hint
    return parameter.name, typing.Union[hint, msgspec.UnsetType], msgspec.UNSET  # noqa: UP007


def encode_other(value: Any) -> Any:
    """Write down what msgspec does not know: models of pydantic.

    Read back at once, because a model may hide or leave out what it holds: better to refuse it than
    to run a handler with less.
    """
    kind = type(value)
    if not is_model(kind):
        raise TypeError(f"{kind.__name__} is not JSON")
    written = value.model_dump_json(by_alias=True, round_trip=True).encode()
    try:
        found = kind.model_validate_json(written)
    except ValueError as error:
        raise TypeError(f"{kind.__name__} cannot read what it writes itself: {error}") from error
    if found != value:
        raise TypeError(
            f"{kind.__name__} does not come back from JSON as it was: a field of it is hidden, "
            f"left out or written otherwise (SecretStr, exclude=True, a serializer)"
        )
    return msgspec.Raw(written)


def _decode_other(kind: type, value: Any) -> Any:
    if kind is object:  # as Any: whatever JSON says is an object, too
        return value
    if is_model(kind):
        return kind.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]
    raise TypeError(f"{kind.__name__} cannot be read from JSON")
