"""Jobs in order for each key, keys beside one another: in this process, or with a store behind."""

from inturn.executor.executor import Executor
from inturn.executor.settings import ExecutorSettings, Failure, shard_for
from inturn.executor.ticket import LocalTicket

__all__ = [
    "Executor",
    "ExecutorSettings",
    "Failure",
    "LocalTicket",
    "shard_for",
]
