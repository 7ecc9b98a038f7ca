"""The example project passes in an environment of its own, with the installed wheel of kafkasim.

The environment has kafkasim from the wheel alone; the libraries that it needs are those of this
environment, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = Path(__file__).parent / "example_project"


def _run(*words: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def _environment(place: Path) -> Path:
    """Build the wheel, install it into a new environment, and return that one's Python."""
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in (".package", "model", "sim", "scenarios", "analysis"):
        leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=leave)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", place, source, cwd=place)
    _run(sys.executable, "-m", "venv", "--without-pip", place / "venv", cwd=place)
    python = place / "venv" / "bin" / "python"
    wheel = next(place.glob("kafkasim-*.whl"))
    _run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=place)
    site = next((place / "venv" / "lib").glob("python*/site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.slow
def test_the_example_project_passes_with_the_installed_wheel(tmp_path: Path) -> None:
    python = _environment(tmp_path)
    where = _run(python, "-c", "import kafkasim; print(kafkasim.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    for file in ("shop.toml", "test_shop.py", "test_service.py", "billing.py"):
        (project / file).write_text((EXAMPLE / file).read_text())
    (project / "pytest.ini").write_text("[pytest]\n")
    told = _run(python, "-m", "pytest", "-q", "--kafkasim-seed", "7", cwd=project)
    assert "7 passed" in told
