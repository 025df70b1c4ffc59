"""The executor: jobs in order for each key, in this process alone or with a store behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, overload

from inturn.executor.local import LocalExecutor
from inturn.executor.settings import (
    ErrorHandler,
    ExecutorSettings,
    LocalOptions,
    Seconds,
    SettingOptions,
)
from inturn.model import events
from inturn.model.errors import BadInput, InvalidSetting

if TYPE_CHECKING:
    from inturn.queue.app import App
    from inturn.worker.durable_executor import DurableExecutor


Environment = Mapping[str, str] | None


class DurableOptions(TypedDict, total=False):
    """What an executor with a store can be told. ``DurableExecutor`` explains it."""

    slots: int
    enqueue_timeout: Seconds
    error_handler: ErrorHandler | None
    listeners: Sequence[events.Listener]
    lease_seconds: float
    sweep_seconds: float


class Executor(LocalExecutor):
    """Runs jobs: those of one key one at a time and in order, keys in parallel.

    In this process alone, as ``LocalExecutor`` says. Given an ``app``, it is a ``DurableExecutor``:
    what that accepts is in the app's store, and survives the process.
    """

    @overload
    def __new__(cls, *, app: None = None, **settings: Unpack[LocalOptions]) -> Self: ...
    @overload
    def __new__(  # type: ignore[misc]
        cls, *, app: App, **settings: Unpack[DurableOptions]
    ) -> DurableExecutor: ...
    def __new__(cls, *, app: App | None = None, **settings: Any) -> Any:
        """Choose by whether there is an app. Python calls no ``__init__`` of another class."""
        return object.__new__(cls) if app is None else _durable(cls, app, settings)

    @overload
    @classmethod
    def from_environment(
        cls, environment: Environment = None, *, app: None = None, **overrides: Unpack[LocalOptions]
    ) -> Executor: ...
    @overload
    @classmethod
    def from_environment(
        cls, environment: Environment = None, *, app: App, **overrides: Unpack[DurableOptions]
    ) -> DurableExecutor: ...
    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        app: App | None = None,
        **overrides: Any,
    ) -> Any:
        """Make one by ``SQ_SHARDS``, ``SQ_QUEUE_SIZE`` and so on; arguments count more."""
        if app is not None:
            meaning = DurableOptions.__annotations__
            said = ExecutorSettings.said(environment, meaning=meaning, **overrides)
            return _durable(cls, app, said)
        names = SettingOptions.__annotations__
        given = {name: overrides.pop(name) for name in list(overrides) if name in names}
        settings = ExecutorSettings.from_environment(environment, **given)
        return cls(**{name: getattr(settings, name) for name in names}, **overrides)


def _durable(cls: type[Executor], app: App, settings: dict[str, Any]) -> DurableExecutor:
    """Return an executor with a store: its code is loaded, with all it needs, for an app alone."""
    from inturn.worker.durable_executor import DurableExecutor

    if cls is not Executor:
        raise BadInput(
            f"{cls.__name__} is an executor without a store, and takes no app. Make it a subclass "
            f"of inturn.DurableExecutor."
        )
    here = LocalOptions.__annotations__.keys() - DurableOptions.__annotations__.keys()
    if idle := sorted(here & settings.keys()):
        raise InvalidSetting(
            f"{', '.join(idle)} means nothing to an executor with a store: attempts and backoff "
            f"are each job's own (@app.job(attempts=…, retry=…)), bounds and on_dead each queue's "
            f"(store.configure(queue, QueueSettings(…)))."
        )
    return DurableExecutor(app=app, **settings)
