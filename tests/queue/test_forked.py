"""Apps in a forked child: they begin anew, or say why they cannot; none hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHILD_SECONDS = 60
"""So long a child may take; one that waits for its parent's threads would wait for ever."""

BEGINNING = """
import asyncio, os, signal, sys
from inturn import App

def in_child(work):
    sys.stdout.flush()
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)
    signal.alarm(SECONDS)
    code = 1
    try:
        code = work() or 0
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    finally:
        sys.stdout.flush()
        os._exit(code)

app = App(sys.argv[1])

@app.job
def note(who: str) -> None: ...

def submitted():
    note.submit_sync("the child")

async def waiting():
    return sum(queue.waiting for queue in await app.run(lambda store: store.queues()))
"""


def run(program: str, url: str = "sqlite:///:memory:") -> str:
    """Run a program in a process without other threads, and return what it wrote."""
    source = BEGINNING.replace("SECONDS", str(CHILD_SECONDS)) + program
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source, url]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


SYNC_PARENT = """
app.sync(app.migrate())
note.submit_sync("the parent, before")
code = in_child(submitted)
note.submit_sync("the parent, after")
print(code, app.sync(waiting()))
app.sync(app.close())
"""


def test_a_child_submits_on_postgresql_while_its_parent_goes_on(postgres_url: str) -> None:
    assert run(SYNC_PARENT, postgres_url) == "0 3\n"


def test_a_child_may_not_use_a_file_that_was_open_at_the_fork(tmp_path: Path) -> None:
    said = run(SYNC_PARENT, f"sqlite:///{tmp_path / 'work.db'}")
    assert said.startswith("StoreError: ")
    assert "was open in the process that this one was forked from" in said
    assert said.endswith("1 2\n")
