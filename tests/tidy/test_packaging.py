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


@pytest.mark.parametrize("sort", ["whl", "tar.gz"])
def test_what_is_built_installs_and_runs_in_an_empty_environment(sort: str, tmp_path: Path) -> None:
    """The README's program, with nothing of this clone in reach. Needs an index of packages."""
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [built] = tmp_path.glob(f"inturn-*.{sort}")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv/bin"
    install = [
        str(programs / "pip"),
        "install",
        "--quiet",
        "--disable-pip-version-check",
        str(built),
    ]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if "No matching distribution" in done.stderr:
        pytest.skip("there is no index of packages in reach")
    assert done.returncode == 0, done.stderr
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program = readme.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "payments.py").write_text(program)

    def run(*command: str) -> str:
        ran = subprocess.run(
            [programs / command[0], *command[1:]],
            cwd=tmp_path,
            env={"PATH": str(programs)},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout

    run("python", "payments.py")
    assert "ann pays 500" in run("inturn", "work", "payments:app", "--drain")
    assert " 3" in run("inturn", "status", "-A", "payments:app"), "done within the hour"
