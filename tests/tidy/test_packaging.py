"""What is installed from the wheel is what is in the source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = directory.glob("inturn-*.whl")
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_says_that_it_is_typed(wheel_names: set[str]) -> None:
    assert "inturn/py.typed" in wheel_names


@pytest.mark.parametrize("ending", ["py", "sql"])
def test_the_wheel_carries_every_file_of_the_source(wheel_names: set[str], ending: str) -> None:
    source = ROOT / "src"
    wanted = {path.relative_to(source).as_posix() for path in source.rglob(f"*.{ending}")}
    assert wanted <= wheel_names


def test_the_wheel_carries_the_licence_and_nothing_beside_the_package(
    wheel_names: set[str],
) -> None:
    assert {name.split("/")[0] for name in wheel_names} == {
        "inturn",
        "inturn-0.1.0.dist-info",
    }
    assert any(name.endswith("/licenses/LICENSE") for name in wheel_names)
