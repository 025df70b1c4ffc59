"""A member as its parent sees it: what it says is heard, or it is none."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from inturn.worker.line import Begin, Up
from inturn.worker.member import Member
from inturn.worker.settings import WorkSettings

SECONDS_MAX = 60.0
BEGIN = Begin(
    WorkSettings(target="shop:app", folder=".", name="c-1"), as_json=True, debug=False,
    crew_is_up=True,
)  # fmt: skip

BABBLE = """
import socket, time
line = socket.socket(fileno=0)
line.sendall(b'{"type":"babble"}' + b"\\n")
while line.recv(65536):
    pass
time.sleep(1000)
"""


def heard_none(_: Up) -> None:
    raise AssertionError("it never came up")


async def test_a_process_whose_reports_cannot_be_read_is_killed() -> None:
    member = Member("c-1", heard_none)
    async with asyncio.timeout(SECONDS_MAX):
        code = await member.live([sys.executable, "-c", BABBLE], BEGIN)
    assert code == -signal.SIGKILL
    assert member.unread is not None
    assert "babble" in member.unread


async def test_a_process_that_cannot_be_started_leaves_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError) as raised:
        await Member("c-1", heard_none).live([str(tmp_path / "none")], BEGIN)
    assert len(os.listdir("/proc/self/fd")) == before, raised
