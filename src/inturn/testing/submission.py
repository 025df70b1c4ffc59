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
from inturn.testing.said import options_said

_MISSING = object()


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
        self.kind = job.kind
        signature = inspect.signature(job.function)
        parameters = list(signature.parameters.values())[int(job.has_context) :]
        try:
            bound = signature.replace(parameters=parameters).bind_partial(*args, **kwargs)
        except TypeError as error:
            raise BadInput(f"job {self.kind!r} is never submitted like that: {error}.") from error
        self._arguments = {name: _plain(value) for name, value in bound.arguments.items()}
        self._defaults = {
            one.name: one.default for one in parameters if one.default is not one.empty
        }
        self._options = options_said(job)

    def differences(self, found: Submission) -> dict[str, tuple[Any, Any]]:
        """Return what is not as expected: by name, what was expected and what was found."""
        payload = msgspec.json.decode(found.new.payload)
        differences: dict[str, tuple[Any, Any]] = {}
        for name, wanted in self._arguments.items():
            value = payload.get(name, _MISSING)
            if value is _MISSING:
                value = _plain(self._defaults.get(name))
            if value != wanted:
                differences[name] = (wanted, value)
        for name, wanted in self._options.items():
            value = found.new.dedupe_seconds if name == "dedupe_seconds" else getattr(found, name)
            if value != (_dedupe(wanted, found) if name == "dedupe" else wanted):
                differences[f"using {name}"] = (wanted, value)
        return differences

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
    if job is None:
        payload = msgspec.json.decode(new.payload)
        arguments = payload if isinstance(payload, dict) else {"payload": payload}
    else:
        positional, arguments = job.arguments.decode(new.payload)
        names = list(inspect.signature(job.function).parameters)[int(job.has_context) :]
        arguments = dict(zip(names, positional, strict=False)) | arguments
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


def _dedupe(wanted: str | bool | None, found: Submission) -> str | None:
    """Return the dedupe key that a submission with such arguments has if it was made as wanted."""
    if wanted is True:
        return default_dedupe(found.kind, found.new.payload)
    return wanted or None


def _plain(value: Any) -> Any:
    """Return a value as it is in a payload, so that two ways to write it are equal."""
    return msgspec.json.decode(encode_payload(value, other=encode_other))


def _extras(found: Submission) -> str:
    usual = {"key": None, "priority": 0, "delay": 0.0, "round": 0, "dedupe": None}
    return _using(
        {name: getattr(found, name) for name in usual if getattr(found, name) != usual[name]}
    )


def _using(options: Mapping[str, Any]) -> str:
    return f" using({_listed(options)})" if options else ""


def _listed(named: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in named.items())
