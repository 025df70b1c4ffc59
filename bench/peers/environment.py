"""The environments that peers are installed in: outside this tree, one each, versions pinned."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.peer import CannotInstall

PEERS = Path(__file__).parent
INSTALL_SECONDS_MAX = 600


def cache() -> Path:
    """Return the folder of all environments."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "inturn-bench"


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """A virtual environment with what ``requirements/NAME.txt`` pins."""

    name: str

    @property
    def requirements(self) -> Path:
        """The file that pins."""
        return PEERS / "requirements" / f"{self.name}.txt"

    @property
    def version(self) -> str:
        """The version of the peer that is pinned."""
        pinned = dict(line.split("==") for line in self.requirements.read_text().split())
        return pinned[self.name]

    def install(self) -> Sequence[str]:
        """Make the environment; return the command of the peer's module in it."""
        return [str(self.folder() / "bin" / "python"), "-m", f"bench.peers.{self.name}"]

    def folder(self) -> Path:
        """Make the environment; return where it is."""
        folder = _folder(self.name, sys.version, self.requirements.read_text())
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        if not _is_complete(folder):
            _run([sys.executable, "-m", "venv", str(folder)])
            _run([*pip, "--requirement", str(self.requirements)])
            _complete(folder)
        return folder


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """A folder with what ``NAME/package-lock.json`` pins, and the program beside it."""

    name: str

    @property
    def version(self) -> str:
        """The version of the peer that is pinned."""
        pinned: dict[str, str] = self._package()["dependencies"]
        return pinned[self.name.replace("_", "-")]

    def install(self) -> Sequence[str]:
        """Install the packages; return the command of the peer's program."""
        if shutil.which("node") is None or shutil.which("npm") is None:
            raise CannotInstall("node and npm are not here")
        lock = PEERS / self.name / "package-lock.json"
        folder = _folder(self.name, lock.read_text())
        folder.mkdir(parents=True, exist_ok=True)
        for file in (*(PEERS / self.name).iterdir(), *(PEERS / "node").iterdir()):
            _renew(file, folder / file.name)
        if not _is_complete(folder):
            _run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], folder)
            _complete(folder)
        # A peer that needs a later Node than the system's brings it along as a package.
        own = folder / "node_modules" / ".bin" / "node"
        return [str(own) if own.exists() else "node", str(folder / "program.js")]

    def _package(self) -> dict[str, Any]:
        return dict(json.loads((PEERS / self.name / "package.json").read_text()))


def _folder(name: str, *decides: str) -> Path:
    digest = hashlib.sha256("\n".join(decides).encode()).hexdigest()[:12]
    return cache() / f"{name}-{digest}"


def _renew(source: Path, target: Path) -> None:
    """Copy a file that has changed; one that has not may be in use."""
    if not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copy(source, target)


def _is_complete(folder: Path) -> bool:
    return (folder / ".complete").exists()


def _complete(folder: Path) -> None:
    # Written last, so that an installation that broke off is done again.
    (folder / ".complete").touch()


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(str(error)) from error
    if done.returncode:
        why = reason(done.stderr or done.stdout)
        raise CannotInstall(why or f"{Path(command[0]).name} ended with {done.returncode}")


def reason(said: str) -> str:
    """Return the line that says why an installation failed, without what is this machine's own."""
    errors = [line for line in said.splitlines() if "error" in line.lower()]
    telling = [line for line in errors if not re.search(r"error code |complete log", line)]
    return re.sub(r"(?<!\S)(\w+:/)?/\S+", "…", (telling or errors or [""])[0]).strip()
