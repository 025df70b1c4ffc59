"""A process is gone when that is sure: it has ended, or its number is someone else's now."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from inturn.worker.processes import identity, is_gone


def test_a_process_that_runs_is_not_gone() -> None:
    assert not is_gone(identity(os.getpid()))


def test_a_process_that_was_killed_is_gone_though_its_parent_has_not_looked() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        alone = identity(child.pid)
        assert not is_gone(alone)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(alone)
        assert identity(child.pid) == ""
    assert is_gone(alone)


def test_a_number_that_was_given_again_names_another_process() -> None:
    named, _, ticks = identity(os.getpid()).rpartition(":")
    assert is_gone(f"{named}:{int(ticks) - 1}")


def test_a_process_of_another_machine_or_namespace_or_user_may_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boot, namespace, one = identity(os.getpid()).split()
    gone = f"{one.partition(':')[0]}:0"
    assert is_gone(f"{boot} {namespace} {gone}")
    assert not is_gone(f"{boot}x {namespace} {gone}")
    assert not is_gone(f"{boot} {namespace}x {gone}")
    assert not is_gone("")

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not is_gone(f"{boot} {namespace} {gone}")
