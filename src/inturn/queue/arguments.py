"""How the arguments of a handler become a payload, and come back as they were."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from inturn.model.errors import BadInput, InvalidPayload, PayloadMismatch, ResultMismatch
from inturn.model.payload import doubled_key, encode_payload
from inturn.model.spelling import job_name
from inturn.queue.loss import changed_member, lost_member, may_lose, rewritten
from inturn.queue.moments import shifted_moment
from inturn.queue.readable import instead_of, is_model, unreadable, unwritten

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
            _check_readable(self._name, parameter, hints)
            hint = hints.get(parameter.name, Any)
            check_written(self._name, f"be given its parameter {parameter.name!r}", hint)
        self._may_lose = any(may_lose(hints.get(one.name, Any)) for one in parameters)

    def encode(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_steady: bool = False
    ) -> str:
        """Return the payload of a call; refuse what the handler could not be called with.

        ``is_steady``: the same in every process, for who compares it with that of another.
        """
        bound = self._bound(args, kwargs)
        payload = encode_payload(bound, other=encode_other, is_steady=is_steady)
        try:
            found = self._decoder.decode(payload)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise BadInput(f"job {self._name} cannot be called like that: {error}.") from error
        if self._may_lose or payload.count("{") > 1:  # else nothing in it has members
            self._check_whole(bound, payload, found)
        if (moment := shifted_moment(bound, payload)) is not None:
            raise BadInput(
                f"job {self._name} cannot be called like that: {moment.isoformat()} has seconds in "
                f"its offset from UTC, which JSON has not, so it would be another moment. Give it "
                f"in UTC."
            )
        return payload

    def _check_whole(self, bound: Mapping[str, Any], payload: str, found: Any) -> None:
        """Refuse an argument of which the handler would get less than was given, or other."""
        again = msgspec.json.encode(found, enc_hook=rewritten)
        if again == payload.encode():
            return
        if (key := doubled_key(payload)) is not None:
            raise BadInput(
                f"job {self._name} cannot be called like that: in JSON two keys of a dict are both "
                f"{key!r}, and the handler would get one of them. Give keys that differ as text."
            )
        if not self._may_lose:
            return
        lost = lost_member(msgspec.json.decode(payload), found)
        if lost is not None:
            raise BadInput(
                f"job {self._name} cannot be called like that: the handler would not get "
                f"{lost.removeprefix('.')!r}, which the annotation of that parameter does not "
                f"have. Annotate it with the type that is given, or give one that it has."
            )
        got = ((name, one, getattr(found, name)) for name, one in bound.items())
        changed = next(
            filter(None, (changed_member(one, other, at) for at, one, other in got)), None
        )
        if changed is not None:
            raise BadInput(
                f"job {self._name} cannot be called like that: the handler would get another "
                f"{changed!r}, for its class changes what it is made of each time, as in its "
                f"__post_init__. Let it leave alone what was changed before."
            )

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """Return the arguments by their names."""
        if not kwargs and len(args) == self._places:
            return dict(zip(self._names, args, strict=True))  # a fifth of the time of binding
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise BadInput(f"job {self._name} cannot be called like that: {error}.") from error

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
        return [named.pop(name, default) for name, default in self._positional.items()], named


def hints_of(function: Callable[..., Any], names: Mapping[str, Any]) -> Hints:
    """Return the annotations of a function, found among ``names`` where its module lacks them."""
    try:
        return typing.get_type_hints(function, localns=dict(names), include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise BadInput(
            f"an annotation of job {function.__name__!r} means nothing where the job is defined: "
            f"{error}. Import or define what it names before the job."
        ) from error


def check_written(name: str, verb: str, hint: Any) -> None:
    """Refuse an annotation of whose values a part would be left out of JSON without a word."""
    if (found := unwritten(hint)) is not None:
        kind, attribute = found
        raise BadInput(
            f"job {name} cannot {verb} whole: {kind.__name__} is a class of attrs, and its "
            f"attribute {attribute!r} would be left out of the JSON, as each is that begins with "
            f"an underscore. Name it without one, or make {kind.__name__} a dataclass."
        )


def encode_result(value: Any) -> str | None:
    """Return what a handler returned as JSON text; None if it returned nothing."""
    if value is None:
        return None
    text = encode_payload(value, what="result", other=encode_other)
    is_as_read = "{" not in text or msgspec.json.encode(_decode(text)) == text.encode()
    if not is_as_read and (key := doubled_key(text)) is not None:
        raise InvalidPayload(
            f"the result cannot be written as JSON: two keys of a dict are both {key!r} there. "
            f"Return keys that differ as text."
        )
    return text


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


def _check_readable(name: str, parameter: inspect.Parameter, hints: Hints) -> None:
    """Refuse a parameter for which every submit would be refused.

    Not one with a default: it may be there for who calls the function by hand.
    """
    hint = hints.get(parameter.name, Any)
    if parameter.default is parameter.empty and (kind := unreadable(hint)) is not None:
        raise BadInput(
            f"job {name} can never be given its parameter {parameter.name!r}: {kind.__name__} "
            f"cannot be read from JSON. {instead_of(kind)}."
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
    text = value.model_dump_json(by_alias=True, round_trip=True)
    try:
        found = kind.model_validate_json(text)
    except ValueError as error:
        raise TypeError(f"{kind.__name__} cannot read what it writes itself: {error}") from error
    if found != value:
        raise TypeError(
            f"{kind.__name__} does not come back from JSON as it was: a field of it is hidden, "
            f"left out or written otherwise (SecretStr, exclude=True, a serializer)"
        )
    return msgspec.Raw(text.encode())


def _decode_other(kind: type, value: Any) -> Any:
    if kind is object:  # as Any: whatever JSON says is an object, too
        return value
    if is_model(kind):
        return kind.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]
    raise TypeError(f"{kind.__name__} cannot be read from JSON")
