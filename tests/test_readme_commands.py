"""Every command of README.md runs, in its order, in one empty directory.

Commands of make are not run here (``make test`` would run this file), but their targets must exist.
Fleets are shortened, and searches begin where they find something; all else runs as it is written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkasim

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCK_LINES = [line[4:] for line in README.splitlines() if line.startswith("    ")]
COMMANDS = [
    match[1].split("#")[0].strip()
    for line in BLOCK_LINES
    if (match := re.match(r"(?:\$ )?(kafkasim \w.*)", line))
]
SHORTER = {
    "--runs 50": "--runs 2",
    "--runs 10": "--runs 3",
    "sweep lag-and-pause --runs 3": "sweep lag-and-pause --runs 1",
    "search --seeds 40 --jobs 2": "search --seeds 2 --jobs 2",
    "B41-raft-leader-same-epoch --seeds": "B41-raft-leader-same-epoch --first 44 --seeds",
    "isr_at_once.py --seeds": "isr_at_once.py --first 5 --seeds",
    "search payments.toml --first 21 --seeds 10": "search payments.toml --first 24 --seeds 2",
    "--budget 20": "--budget 3",
}
USERS_FILE = ROOT / "scenarios" / "catalogue" / "gc-pause-fenced.toml"
USERS_APPLICATION = ROOT / "tests" / "example_project" / "billing.py"
USERS_CLUSTER = ROOT / "tests" / "example_project" / "payments.toml"
USERS_RULE = ROOT / "tests" / "example_project" / "isr_at_once.py"
FAILS_ON_PURPOSE = 10
"""The exit code of a scripted fault whose variant is in force: a safety failure."""
ONE_AFTER_ANOTHER = """
import json, sys
from kafkasim.scenarios.cli import invoke
print("\\n" + json.dumps([invoke(words) for words in json.load(sys.stdin)]))
"""
"""Runs commands in one process: a command of Spark's takes the session of the one before it."""


def shown(completed: subprocess.CompletedProcess[str]) -> str:
    return f"exit {completed.returncode}\n{completed.stdout[-2000:]}\n{completed.stderr[-2000:]}"


@pytest.mark.slow
@pytest.mark.spark
def test_every_command_runs(tmp_path: Path) -> None:
    shutil.copy(USERS_FILE, tmp_path / "my.toml")
    shutil.copy(USERS_APPLICATION, tmp_path)
    shutil.copy(USERS_CLUSTER, tmp_path)
    shutil.copy(USERS_RULE, tmp_path)
    assert len(COMMANDS) >= 20, COMMANDS
    words = [shortened(command).split()[1:] for command in COMMANDS]
    completed = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_ANOTHER],
        input=json.dumps(words),
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=1_800,
    )
    ended = json.loads(completed.stdout.splitlines()[-1])
    expected = [FAILS_ON_PURPOSE if breaks(command) else 0 for command in COMMANDS]
    assert dict(zip(COMMANDS, ended)) == dict(zip(COMMANDS, expected)), shown(completed)


def shortened(command: str) -> str:
    for given, shorter in SHORTER.items():
        command = command.replace(given, shorter)
    return command


def breaks(command: str) -> bool:
    if command.startswith("kafkasim search payments.toml"):
        return "acks=all" not in command
    return command.startswith("kafkasim run") and any(
        sign in command for sign in ("--variant", "small/", "commit_first")
    )


def test_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"(?:`|^    )make (\w+)", README, re.M)
    assert {"demo", "test", "check", "bench", "soak"} <= set(named)
    missing = [target for target in named if not re.search(rf"^{target}:", makefile, re.M)]
    assert not missing, missing


@pytest.mark.slow
def test_the_lines_of_python_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(USERS_FILE, tmp_path / "my.toml")
    monkeypatch.chdir(tmp_path)
    lines = [line for line in BLOCK_LINES if line.startswith("outcome")]
    assert len(lines) == 2, lines
    names: dict[str, object] = {"kafkasim": kafkasim}
    exec(lines[0], names)
    verdict, anomalies, facts = eval(lines[1], names)
    assert (verdict, anomalies) == ("pass", [])
    assert facts.num_rows > 0


@pytest.mark.slow
def test_the_story_in_the_readme_is_what_is_printed() -> None:
    """Its lines are broken to the width of the page; nothing else is changed."""
    story, noticed = README.split("    $ kafkasim run split-brain --explain\n")[1].split("\n\n")[:2]
    outcome = kafkasim.run("split-brain", seed=0)
    assert story.split() == "\n".join(outcome.story()).split()
    assert noticed.split() == "\n".join(outcome.noticed()).split()
