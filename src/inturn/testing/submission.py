"""What was submitted, and how it compares with what a test expected."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from inturn.model.errors import BadInput
from inturn.model.job import NewJob
from inturn.model.payload import encode_payload
from inturn.policy.dedupe import default_dedupe
from inturn.queue.arguments import encode_other
from inturn.queue.job import Job
from inturn.testing.named import check_job
from inturn.testing.said import options_said


class _Nothing:
    """What stands for a member that a payload does not have."""

    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job that was accepted while the test ran. ``arguments`` are as its handler gets them."""

    id: UUID
    kind: str
    arguments: dict[str, Any]
    queue: str
    key: str | None
    priority: int
    delay: float
    round: int
    after: frozenset[UUID]
    dedupe: str | None
    at: datetime
    new: NewJob

    def __str__(self) -> str:
        return f"{self.kind}({_listed(self.arguments)}){_extras(self)}"


class Expected:
    """What a test expects of a submission: its job, and as many arguments and options as it says.

    The options are those that ``job.using(…)`` says.
    """

    def __init__(self, job: Job[Any, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        check_job(job)
        self.kind, self._job = job.kind, job
        parameters = _parameters(job)
        try:
            bound = inspect.Signature(parameters).bind_partial(*args, **kwargs)
        except TypeError as error:
            raise BadInput(f"job {self.kind!r} is never submitted like that: {error}.") from error
        self._given = dict(bound.arguments)
        self._arguments = {name: _plain(value) for name, value in self._given.items()}
        self._defaults = {
            one.name: one.default for one in parameters if one.default is not one.empty
        }
        self._options = options_said(job)

    def differences(self, found: Submission) -> dict[str, tuple[Any, Any]]:
        """Return what is not as expected: by name, what was expected and what was found."""
        members = _members(found.new.payload)
        differences: dict[str, tuple[Any, Any]] = {}
        for name, wanted in self._arguments.items():
            value = self._value(name, members)
            if value != wanted and not self._is_equal(name, members):
                differences[name] = (wanted, value)
        for name, wanted in self._options.items():
            value = found.new.dedupe_seconds if name == "dedupe_seconds" else getattr(found, name)
            if value != (_dedupe(wanted, found) if name == "dedupe" else wanted):
                differences[f"using {name}"] = (wanted, value)
        return differences

    def _value(self, name: str, members: Mapping[str, msgspec.Raw]) -> Any:
        """Return an argument as it is in a payload, or as it is without being there."""
        if name in members:
            return msgspec.json.decode(members[name])
        default = self._defaults.get(name, _NOTHING)
        try:
            return _plain(default)
        except BadInput:  # nobody can submit it: it only stands for what was not
            return default

    def _is_equal(self, name: str, members: Mapping[str, msgspec.Raw]) -> bool:
        """Whether the handler gets what is equal to what it would get of the expected argument.

        Equal values may be written in several ways: a set in any order, a moment in any zone.
        """
        given = self._given[name]
        expected = msgspec.Raw(encode_payload(given, other=encode_other).encode())
        found = arguments_of(self._job, _payload(members))
        other = arguments_of(self._job, _payload({**members, name: expected}))
        if found is None or other is None:
            return False
        value = found.get(name, self._defaults.get(name))
        if isinstance(given, set | frozenset) and isinstance(value, list):
            return _is_in_any_order(other[name], value)  # nothing says that it is a set
        return bool(value == other[name])

    def complaint(self, submissions: Sequence[Submission]) -> str:
        """Say that none of these is what was expected, and which is nearest to it."""
        same = [one for one in submissions if one.kind == self.kind]
        lines = [f"{self} was not submitted."]
        if same:
            nearest = min(same, key=lambda one: len(self.differences(one)))
            number = "The one" if len(same) == 1 else f"The nearest of {len(same)}"
            lines.append(f"{number} of its kind that was, {nearest}, differs in:")
            for name, (wanted, value) in self.differences(nearest).items():
                lines += [
                    f"    {name}",
                    f"      expected  {wanted!r}",
                    f"      submitted {value!r}",
                ]
        others = Counter(one.kind for one in submissions if one.kind != self.kind)
        if others:
            counted = ", ".join(f"{count} of {kind!r}" for kind, count in others.items())
            lines.append(f"Of other kinds there were {counted}.")
        elif not same:
            lines.append("Nothing was submitted at all.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.kind}({_listed(self._arguments)}){_using(self._options)}"


def submission(new: NewJob, job: Job[Any, Any] | None, at: datetime) -> Submission:
    """Return an accepted job as tests look at it; ``job``: how it is declared, if it is."""
    arguments = None if job is None else arguments_of(job, new.payload)
    if arguments is None:
        payload = msgspec.json.decode(new.payload)
        arguments = payload if isinstance(payload, dict) else {"payload": payload}
    return Submission(
        id=new.id,
        kind=new.kind,
        arguments=arguments,
        queue=new.queue,
        key=new.key,
        priority=new.priority,
        delay=new.delay_seconds,
        round=new.round,
        after=new.after,
        dedupe=new.dedupe,
        at=at,
        new=new,
    )


def arguments_of(job: Job[Any, Any], payload: str) -> dict[str, Any] | None:
    """Return a payload's arguments by their names, as the handler gets them; None if it does not
    fit, which is for a worker to find: it was accepted.
    """
    try:
        positional, named = job.arguments.decode(payload)
    except Exception:  # also what a class of the user's own raises when it is made
        return None
    names = [one.name for one in _parameters(job)]
    return dict(zip(names, positional, strict=False)) | named


def _parameters(job: Job[Any, Any]) -> list[inspect.Parameter]:
    """Return what a job is submitted with, also if the test has replaced its function."""
    return list(inspect.signature(job).parameters.values())[int(job.has_context) :]


def _dedupe(wanted: str | bool | None, found: Submission) -> str | None:
    """Return the dedupe key that a submission with such arguments has if it was made as wanted."""
    if wanted is True:
        return default_dedupe(found.kind, found.new.payload)
    return wanted or None


def _plain(value: Any) -> Any:
    """Return a value as it is in a payload, so that two ways to write it are equal."""
    return msgspec.json.decode(encode_payload(value, other=encode_other))


def _members(payload: str) -> dict[str, msgspec.Raw]:
    """Return what a payload holds by name, each as it was written; of one that is no object,
    nothing.
    """
    if not payload.lstrip().startswith("{"):
        return {}
    return msgspec.json.decode(payload, type=dict[str, msgspec.Raw])


def _payload(members: Mapping[str, msgspec.Raw]) -> str:
    return msgspec.json.encode(members).decode()


def _is_in_any_order(expected: list[Any], found: list[Any]) -> bool:
    """Whether a list has the members of a set."""
    return len(found) == len(expected) and all(one in found for one in expected)


def _extras(found: Submission) -> str:
    usual = {"key": None, "priority": 0, "delay": 0.0, "round": 0, "dedupe": None}
    return _using(
        {name: getattr(found, name) for name in usual if getattr(found, name) != usual[name]}
    )


def _using(options: Mapping[str, Any]) -> str:
    return f" using({_listed(options)})" if options else ""


def _listed(named: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in named.items())
