"""Jobs in order for each key, keys beside one another: in this process, or with a store behind."""

from inturn.executor.executor import Executor
from inturn.executor.report import Failure
from inturn.executor.settings import ExecutorSettings
from inturn.executor.shard import shard_for
from inturn.executor.ticket import LocalTicket

__all__ = [
    "Executor",
    "ExecutorSettings",
    "Failure",
    "LocalTicket",
    "shard_for",
]
