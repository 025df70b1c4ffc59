"""What an executor can be told: by arguments, or by ``SQ_*`` variables; and what hears of jobs."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Any, TypedDict

from inturn.log import log_unknown_variable
from inturn.model import bounds
from inturn.model.admissible import check_number, check_whole, listed, shown
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput, InvalidSetting
from inturn.model.events import Listener
from inturn.model.lane import OnDead
from inturn.model.spelling import did_you_mean

PREFIX = "SQ_"

Seconds = float | str
"""Seconds as a number, or a text such as ``"100ms"``."""


class SettingOptions(TypedDict, total=False):
    """The arguments of ``ExecutorSettings``."""

    shards: int
    slots: int
    queue_size: int
    depth_max: int
    enqueue_timeout: Seconds
    max_attempts: int
    base_backoff: Seconds
    max_interval: Seconds
    jitter: float
    on_dead: OnDead | str


class LocalOptions(SettingOptions, total=False):
    """What an executor without a store can be told. ``LocalExecutor`` explains it."""

    permanent: tuple[type[BaseException], ...]
    error_handler: ErrorHandler | None
    listeners: Sequence[Listener]
    random: Random | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """How an executor bounds, repeats and gives up. Durations are seconds once it is made.

    - ``shards``: what metrics are labelled with and ``queue_size`` counts in;
    - ``slots``: how many keys run at once; as many as there are shards, if nothing is said;
    - ``queue_size``: how many jobs may wait in a shard, ``depth_max``: in all of them;
    - ``enqueue_timeout``: how long ``submit`` waits for room; 0 tries once;
    - ``max_attempts``: how often a job runs at most;
    - ``base_backoff``: the wait after the first failure, doubled after each up to ``max_interval``;
    - ``jitter``: how much of a wait is left to chance, from 0.0 to 1.0;
    - ``on_dead``: what a key does after a job failed for good: ``skip`` goes on, ``halt`` stops.
    """

    shards: int = 4
    slots: int = 0  # 0: as many as there are shards
    queue_size: int = 128
    depth_max: int = 0  # 0: what all shards hold together
    enqueue_timeout: Seconds = 0.1
    max_attempts: int = 8
    base_backoff: Seconds = 0.1
    max_interval: Seconds = 20.0
    jitter: float = 1.0
    on_dead: OnDead | str = OnDead.SKIP

    def __post_init__(self) -> None:
        """Refuse what cannot be, and turn durations into seconds."""
        whole = (
            ("shards", 1, bounds.SHARDS_MAX),
            ("slots", 0, bounds.SLOTS_MAX),
            ("queue_size", 1, bounds.QUEUE_SIZE_MAX),
            ("depth_max", 0, bounds.SHARDS_MAX * bounds.QUEUE_SIZE_MAX),
            ("max_attempts", 1, bounds.ATTEMPTS_MAX),
        )
        for name, lowest, highest in whole:
            _checked(name, check_whole, getattr(self, name), lowest, highest)
        _checked("jitter", check_number, self.jitter, 0.0, 1.0)
        for name in ("enqueue_timeout", "base_backoff", "max_interval"):
            object.__setattr__(self, name, seconds(name, getattr(self, name)))
        base, longest = float(self.base_backoff), float(self.max_interval)
        if base > longest:  # it would be cut short without a word
            raise InvalidSetting(
                f"base_backoff is {base:g} s, and max_interval, the longest wait there may be, "
                f"{longest:g} s. Raise max_interval, or lower base_backoff."
            )
        if not self.slots:
            object.__setattr__(self, "slots", min(self.shards, bounds.SLOTS_MAX))
        if not self.depth_max:
            object.__setattr__(self, "depth_max", self.shards * self.queue_size)
        if self.on_dead not in list(OnDead):
            known = " or ".join(repr(str(one)) for one in OnDead)
            raise InvalidSetting(f"on_dead is {self.on_dead!r}; it may be {known}.")
        object.__setattr__(self, "on_dead", OnDead(self.on_dead))

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **overrides: Any
    ) -> ExecutorSettings:
        """Read ``SQ_SHARDS``, ``SQ_QUEUE_SIZE`` and so on; what is given here counts more."""
        said = cls.said(environment, **overrides)
        try:
            return cls(**said)
        except InvalidSetting as error:
            text = str(error)
            for name in said.keys() - overrides.keys():  # named as they were given
                text = re.sub(rf"(?<![\w'\"]){name}\b", PREFIX + name.upper(), text)
            raise InvalidSetting(text) from error

    @classmethod
    def said(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        meaning: Collection[str] | None = None,
        **overrides: Any,
    ) -> dict[str, Any]:
        """Return what the variables and the caller say, and nothing of what they leave unsaid.

        ``meaning``: the settings that mean something, if not all do; a variable of another may be
        there for other executors.
        """
        environment = os.environ if environment is None else environment
        found: dict[str, Any] = {}
        for field in fields(cls):
            variable = PREFIX + field.name.upper()
            is_said = field.name not in overrides and variable in environment
            if is_said and (meaning is None or field.name in meaning):
                found[field.name] = _read(variable, environment[variable], field.name)
        known = {PREFIX + field.name.upper() for field in fields(cls)}
        for variable in sorted(environment):  # most likely meant for an executor, and misspelled
            is_unknown = variable.startswith(PREFIX) and variable not in known
            if is_unknown and (meant := did_you_mean(variable, known, prefix=PREFIX)):
                log_unknown_variable(variable, meant)
        return {**found, **overrides}


def seconds(name: str, given: Seconds, *, highest: float = bounds.WAIT_SECONDS_MAX) -> float:
    """Return a duration in seconds; refuse what is none."""
    if isinstance(given, str):
        try:
            given = parse_duration(given)
        except BadInput as error:
            raise InvalidSetting(f"{name} cannot be read: {error}") from error
    _checked(name, check_number, given, 0.0, highest)
    return float(given)


def _read(variable: str, text: str, name: str) -> Any:
    """Return a variable's value as its setting's type; durations stay text."""
    if name in ("enqueue_timeout", "base_backoff", "max_interval", "on_dead"):
        return text.strip()
    kind: type = float if name == "jitter" else int
    try:
        return kind(text.strip())
    except ValueError as error:
        what = "a number" if kind is float else "a whole number"
        raise InvalidSetting(f"{variable} is {text!r}; it must be {what}.") from error


def _checked(name: str, check: Callable[..., None], value: object, *limits: float) -> None:
    try:
        check(name, value, *limits)
    except InvalidSetting:
        raise
    except BadInput as error:
        raise InvalidSetting(str(error)) from error


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that failed for good, or was cancelled: whose it was, and with what it ended.

    ``error`` is what the job raised, ``JobCancelled``, or ``KeyHalted`` if a job before it failed.
    """

    key: str
    shard: int
    attempts: int
    error: BaseException


ErrorHandler = Callable[[Failure], object]


def check_known(given: Iterable[str], executor: object) -> None:
    """Refuse an argument that no executor has, as Python does, and say which was meant."""
    known = LocalOptions.__annotations__
    for name in given:
        if name not in known:
            meant = did_you_mean(name, known)
            raise TypeError(f"{type(executor).__name__} takes no argument {name!r}.{meant}")


def check_error_handler(given: object) -> None:
    """Refuse what cannot be called with a failure, or would have to be awaited."""
    if given is not None and not callable(given):
        raise BadInput("error_handler must be a function that takes a Failure.")
    if inspect.iscoroutinefunction(given):
        raise BadInput("error_handler must be a def, not an async def: nobody would await it.")


def checked_listeners(given: Iterable[Listener]) -> list[Listener]:
    """Return listeners; refuse what cannot be called with an event, or would have to be awaited."""
    listeners = listed("listeners", given)
    for one in listeners:
        if not callable(one):
            raise BadInput(f"a listener must be a function that takes an event, not {shown(one)}.")
        if inspect.iscoroutinefunction(one):
            raise BadInput("a listener must be a def, not an async def: nobody would await it.")
    return listeners


_OFFSET = 0x811C9DC5
_PRIME = 0x01000193


def fnv1a_32(data: bytes) -> int:
    """Return the 32-bit FNV-1a digest of some bytes."""
    digest = _OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _PRIME) & 0xFFFFFFFF
    return digest


def shard_for(key: str, shards: int) -> int:
    """Return the shard of a key, from 0: the same in every process and on every machine."""
    return fnv1a_32(key.encode()) % shards
