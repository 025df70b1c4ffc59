"""Durable jobs in turn: every key its own lane, every lane in order, on SQLite or PostgreSQL."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inturn.executor import Executor, ExecutorSettings
    from inturn.groups.actions import command, request, sql
    from inturn.groups.errors import GroupRefused, GroupTimeout, UnknownGroup, UnknownStep
    from inturn.groups.group import Group, GroupResult
    from inturn.groups.model import Effect, GroupState, StepState
    from inturn.model.errors import (
        AppInterrupted,
        AppNotFound,
        AttemptFailed,
        BadInput,
        ChildDied,
        ConstraintBroken,
        DedupeConflict,
        DependencyCycle,
        EarlierFailure,
        EnqueueTimeout,
        ExecutorClosed,
        HookFailed,
        InturnError,
        InvalidName,
        InvalidPayload,
        InvalidSetting,
        InvalidStoreURL,
        JobCancelled,
        JobConflict,
        JobFailed,
        KeyHalted,
        LeaseLost,
        NoRights,
        NotFound,
        NotHalted,
        OutOfBounds,
        OutOfOrder,
        PayloadMismatch,
        PayloadTooLarge,
        QueueFull,
        QueueInUse,
        ResultCancelled,
        ResultLost,
        ResultMismatch,
        ResultTimeout,
        SchemaMissing,
        SchemaTaken,
        SchemaTooNew,
        ShardFull,
        StoreBusy,
        StoreError,
        StoreFull,
        StoreReplaced,
        StoreUnavailable,
        TooManyHalted,
        UnknownDependency,
        UnknownJob,
        UnknownLane,
        UnknownQueue,
        WaitsForItself,
        WorkerSpent,
        WrongJob,
    )
    from inturn.policy.retry import Reject, RetryLater, RetryPolicy
    from inturn.policy.verdict import Bury, Retry
    from inturn.poll.page import Change, ChangeKind, Page
    from inturn.queue.app import App
    from inturn.queue.context import Context
    from inturn.queue.job import Call, Job
    from inturn.queue.ticket import Ticket
    from inturn.store.queries import Query
    from inturn.store.schema import Schema
    from inturn.worker.durable_executor import DurableExecutor
    from inturn.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "App",
    "AppInterrupted",
    "AppNotFound",
    "AttemptFailed",
    "BadInput",
    "Bury",
    "Call",
    "Change",
    "ChangeKind",
    "ChildDied",
    "ConstraintBroken",
    "Context",
    "DedupeConflict",
    "DependencyCycle",
    "DurableExecutor",
    "EarlierFailure",
    "Effect",
    "EnqueueTimeout",
    "Executor",
    "ExecutorClosed",
    "ExecutorSettings",
    "Group",
    "GroupRefused",
    "GroupResult",
    "GroupState",
    "GroupTimeout",
    "HookFailed",
    "InturnError",
    "InvalidName",
    "InvalidPayload",
    "InvalidSetting",
    "InvalidStoreURL",
    "Job",
    "JobCancelled",
    "JobConflict",
    "JobFailed",
    "KeyHalted",
    "LeaseLost",
    "NoRights",
    "NotFound",
    "NotHalted",
    "OutOfBounds",
    "OutOfOrder",
    "Page",
    "PayloadMismatch",
    "PayloadTooLarge",
    "Query",
    "QueueFull",
    "QueueInUse",
    "Reject",
    "ResultCancelled",
    "ResultLost",
    "ResultMismatch",
    "ResultTimeout",
    "Retry",
    "RetryLater",
    "RetryPolicy",
    "Schema",
    "SchemaMissing",
    "SchemaTaken",
    "SchemaTooNew",
    "ShardFull",
    "StepState",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreReplaced",
    "StoreUnavailable",
    "Ticket",
    "TooManyHalted",
    "UnknownDependency",
    "UnknownGroup",
    "UnknownJob",
    "UnknownLane",
    "UnknownQueue",
    "UnknownStep",
    "WaitsForItself",
    "Worker",
    "WorkerSpent",
    "WrongJob",
    "command",
    "request",
    "sql",
]

_HOMES = {  # of all but the errors of the engine
    "App": "inturn.queue.app",
    "Bury": "inturn.policy.verdict",
    "Call": "inturn.queue.job",
    "Change": "inturn.poll.page",
    "ChangeKind": "inturn.poll.page",
    "Context": "inturn.queue.context",
    "DurableExecutor": "inturn.worker.durable_executor",
    "Effect": "inturn.groups.model",
    "Executor": "inturn.executor",
    "ExecutorSettings": "inturn.executor",
    "Group": "inturn.groups.group",
    "GroupRefused": "inturn.groups.errors",
    "GroupResult": "inturn.groups.group",
    "GroupState": "inturn.groups.model",
    "GroupTimeout": "inturn.groups.errors",
    "Job": "inturn.queue.job",
    "Page": "inturn.poll.page",
    "Query": "inturn.store.queries",
    "Reject": "inturn.policy.retry",
    "Retry": "inturn.policy.verdict",
    "RetryLater": "inturn.policy.retry",
    "RetryPolicy": "inturn.policy.retry",
    "Schema": "inturn.store.schema",
    "StepState": "inturn.groups.model",
    "Ticket": "inturn.queue.ticket",
    "UnknownGroup": "inturn.groups.errors",
    "UnknownStep": "inturn.groups.errors",
    "Worker": "inturn.worker.worker",
    "command": "inturn.groups.actions",
    "request": "inturn.groups.actions",
    "sql": "inturn.groups.actions",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for, so that a command starts fast."""
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "inturn.model.errors")), name)
    raise AttributeError(f"module 'inturn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
