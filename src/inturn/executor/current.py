"""Which job calls: by the thread that it runs on, or the slot whose task is the current one."""

from __future__ import annotations

import asyncio
import threading

from inturn.executor.loop_slots import SlotWorker
from inturn.executor.thread_slots import SlotThread
from inturn.executor.ticket import LocalTicket


def current_job() -> LocalTicket | None:
    """Return the ticket of the job that calls this, of whatever executor, or None outside one."""
    thread = threading.current_thread()
    if isinstance(thread, SlotThread):
        return thread.ticket
    try:
        caller = asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None
    return caller.slot.ticket if isinstance(caller, SlotWorker) else None
