"""`inturn groups`, as a person and as a script use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILE = """
group: files
steps:
  one: {node: left, do: {job: touch, with: {name: one}}, undo: {job: remove, with: {name: one}}}
  two:
    node: right
    do: {job: touch, with: {name: two}}
    undo: {job: remove, with: {name: two}}
    after: [one]
  three:
    node: right
    do: {job: touch, with: {name: three}}
    undo: {job: remove, with: {name: three}}
    after: [two]
"""


class Shell:
    """Commands in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop.py").write_text((Path(__file__).parent / "shop.py").read_text())
        (folder / "files.yaml").write_text(FILE)

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command; return what it printed, or complained."""
        command = [sys.executable, "-m", "inturn.cli.main", *words]
        done = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            env=os.environ | {"COLUMNS": "300", "TERM": "xterm"},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def groups(self, *words: str, code: int = 0) -> str:
        return self.run("groups", *words, "-A", "shop:app", code=code)

    def data(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.groups(*words, "--json", code=code))

    def work(self) -> None:
        self.run("work", "shop:app", "--drain")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_group_goes_its_way_by_commands(shell: Shell) -> None:
    assert "wave 3: three" in shell.groups("plan", "files.yaml")
    assert shell.data("plan", "files.yaml")["longest_path"] == ["one", "two", "three"]
    assert not (shell.folder / "work.db").exists()  # a plan stores nothing
    said = shell.groups("apply", "files.yaml")
    assert "Group 'files' is accepted: 3 steps. No living worker has the job 'remove' or" in said
    assert "No living worker serves node 'left': start one by `inturn work MODULE:APP`" in said
    assert "'files' is running" in shell.groups("apply", "files.yaml", code=2)
    assert "waits for 'one' (pending)" in shell.groups("explain", "files", "two")
    assert "No living worker has the job" in shell.groups("explain", "files", "one")
    shell.work()
    [group] = shell.data("list")["groups"]
    assert (group["name"], group["state"], group["percent"]) == ("files", "done", 100)
    assert "wave 2  two  applied" in shell.groups("show", "files")
    assert shell.data("show", "files")["steps"][1]["after"] == ["one"]
    assert "step 'three' is applied" in shell.groups("explain", "files", "three")
    assert {path.name for path in shell.folder.glob("t*")} == {"two", "three"}
    exported = shell.groups("export", "files")
    (shell.folder / "again.yaml").write_text(exported)
    assert shell.data("plan", "again.yaml") == shell.data("plan", "files.yaml")
    shell.groups("undo", "files", "--why", "enough", "--by", "ann")
    shell.work()
    assert "because enough (asked by ann)" in shell.groups("show", "files", code=1)
    assert not list(shell.folder.glob("t*"))
    assert "undone" in shell.groups("watch", "files", code=1)
    assert "there is nothing to pause" in shell.groups("pause", "files", code=1)
    assert "no group 'nothing'" in shell.groups("show", "nothing", code=1)


def test_a_stuck_group_is_retried_and_skipped_by_commands(shell: Shell) -> None:
    for name in ("three.no", "two.keep", "one.keep"):
        (shell.folder / name).touch()
    said = shell.groups("apply", "files.yaml", "--wait", "10ms", code=1)
    assert "No living worker serves node 'left'" in said
    assert "'files' is running after 0.01 s" in said
    shell.groups("pause", "files", "--by", "ann")
    assert "paused by ann" in shell.groups("show", "files")
    assert "The group is paused by ann" in shell.groups("explain", "files", "one")
    shell.groups("resume", "files")
    shell.work()
    said = shell.groups("show", "files", code=1)
    assert "not undone: one on left, two on right" in said
    assert "because step 'three' failed: Reject: three is not to be" in said
    assert "`inturn groups retry files two`" in shell.groups("explain", "files", "two")
    said = shell.groups("explain", "files", "three")
    assert "The group is stuck on 'one' (not_undone), 'two' (not_undone)." in said
    (shell.folder / "two.keep").unlink()
    shell.groups("pause", "files", "--by", "bob")
    said = shell.groups("retry", "files", "two")
    assert "Group 'files' is paused by bob and will try 'two' again when it is resumed." in said
    shell.groups("resume", "files")
    shell.work()
    assert not (shell.folder / "two").exists()
    assert "Missing option '--why'" in shell.groups("skip", "files", "one", code=2)
    shell.groups("skip", "files", "one", "--why", "it stays")
    found = shell.data("show", "files", code=1)
    assert (found["state"], found["not_undone"]) == ("undone", ["one"])
    assert "1 step not undone; step 'three' failed" in shell.groups("list")
    assert [step["state"] for step in found["steps"]] == ["undo_skipped", "undone", "not_applied"]
    assert "nothing to retry" in shell.groups("retry", "files", "two", code=1)
    assert "has no step 'four'" in shell.groups("retry", "files", "four", code=1)


def test_a_file_that_is_no_group_is_refused(shell: Shell) -> None:
    (shell.folder / "bad.yaml").write_text(FILE.replace("after: [one]", "after: [three]"))
    said = shell.groups("apply", "bad.yaml", code=2)
    assert "'two' → 'three' → 'two'" in said
    (shell.folder / "bad.yaml").write_text(FILE.replace("node: left", "node: lift"))
    assert "not declared here, the store must know: lift" in shell.groups("plan", "bad.yaml")
    said = shell.groups("apply", "bad.yaml", code=2)
    assert "step 'one' is on node 'lift', which nobody declared. Did you mean left?" in said
    assert "neither YAML nor JSON" in shell.groups("apply", "shop.py", code=2)
    assert "cannot be read" in shell.groups("plan", "nothing.yaml", code=2)
