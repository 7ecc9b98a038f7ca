"""One seed, one run, bit for bit: whatever the hash seed of the process, with or without files.

One process cannot see its own hash order, so two run the whole catalogue, cut to a few seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.searching.draw import draw

ROOT = Path(__file__).parents[1]
PROBE = Path(__file__).parent / "determinism_probe.py"
HASH_SEEDS = ("0", "4711")
SEED = 7
NAMES = library.names()


def start(hash_seed: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / ".package")}
    command = [sys.executable, str(PROBE), str(SEED), *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def printed(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate()
    assert process.returncode == 0, err[-4000:]
    return out.splitlines()


def first_difference(name: str) -> str:
    one, other = (printed(start(hash_seed, "--rows", name)) for hash_seed in HASH_SEEDS)
    for index, (left, right) in enumerate(zip(one, other)):
        if left != right:
            before = one[max(0, index - 3) : index]
            return "\n  ".join([f"{name}, the first row that differs:", *before, left, right])
    return f"{name}: one run has {len(one)} rows, the other {len(other)}, equal as far as both go"


@pytest.mark.slow
@pytest.mark.parametrize("names", [NAMES[:3], NAMES[3:]], ids=["three", "others"])
def test_every_scenario_is_the_same_under_another_hash_seed(names):
    processes = [start(hash_seed, *names) for hash_seed in HASH_SEEDS]
    one, other = (
        {line["name"]: line for line in map(json.loads, printed(process))} for process in processes
    )
    assert list(one) == list(other) == names
    different = [name for name, line in one.items() if line != other[name]]
    assert not different, f"{different}: {first_difference(different[0])}"


def small(seed):
    data = draw(1) | {"duration": "2s", "faults": [], "operations": []}
    return parse(data, "small"), seed


@pytest.mark.slow
def test_another_seed_is_another_run():
    assert run(*small(1)).digest != run(*small(2)).digest


@pytest.mark.slow
def test_a_directory_changes_nothing_and_a_second_run_writes_the_same_bytes(tmp_path):
    without = run(*small(3))
    first = run(*small(3), directory=tmp_path / "a")
    again = run(*small(3), directory=tmp_path / "b")
    assert without.digest == first.digest == again.digest
    for path in sorted((tmp_path / "a").iterdir()):
        if path.name != "timing.json":
            assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name
