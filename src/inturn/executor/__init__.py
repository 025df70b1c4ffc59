"""Jobs in this process, without a store: in order for each key, keys beside one another."""

from inturn.executor.completions import Completions
from inturn.executor.executor import Executor
from inturn.executor.report import Failure
from inturn.executor.settings import ExecutorSettings
from inturn.executor.shard import shard_for
from inturn.executor.ticket import LocalTicket

__all__ = [
    "Completions",
    "Executor",
    "ExecutorSettings",
    "Failure",
    "LocalTicket",
    "shard_for",
]
