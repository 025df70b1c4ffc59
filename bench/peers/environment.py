"""The environments that peers are installed in: outside this tree, one each, versions pinned."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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

    def install(self) -> Sequence[str]:
        """Make the environment; return the command of the peer's module in it."""
        requirements = PEERS / "requirements" / f"{self.name}.txt"
        folder = _folder(self.name, sys.version, requirements.read_text())
        python = folder / "bin" / "python"
        if not _is_complete(folder):
            _run([sys.executable, "-m", "venv", str(folder)])
            _run(
                [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
            )
            _complete(folder)
        return [str(python), "-m", f"bench.peers.{self.name}"]


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """A folder with what ``NAME/package-lock.json`` pins, and the program beside it."""

    name: str

    def install(self) -> Sequence[str]:
        """Install the packages; return the command of the peer's program."""
        if shutil.which("node") is None or shutil.which("npm") is None:
            raise CannotInstall("node and npm are not here")
        source = PEERS / self.name
        lock = source / "package-lock.json"
        folder = _folder(self.name, lock.read_text())
        folder.mkdir(parents=True, exist_ok=True)
        for file in source.iterdir():
            shutil.copy(file, folder)
        if not _is_complete(folder):
            _run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], folder)
            _complete(folder)
        return ["node", str(folder / "program.js")]


def _folder(name: str, *decides: str) -> Path:
    digest = hashlib.sha256("\n".join(decides).encode()).hexdigest()[:12]
    return cache() / f"{name}-{digest}"


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
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CannotInstall(said[-1] if said else f"{command[0]} ended with {done.returncode}")
