"""Every command of README.md runs, each as a test; before it, those whose results it reads.

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
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkasim

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCK_LINES = [line[4:] for line in README.splitlines() if line.startswith("    ")]
WHILE_IT_SERVES = "kafkasim inject "
"""Needs a server in another process: tests/scenarios/wire/test_serving.py runs it."""

COMMANDS = [
    match[1].split("#")[0].strip()
    for line in BLOCK_LINES
    if (match := re.match(r"(?:\$ )?(kafkasim \w.*)", line))
    and not match[1].startswith(WHILE_IT_SERVES)
]
SHORTER = {
    "--runs 50": "--runs 2",
    "--runs 10": "--runs 3",
    "sweep lag-and-pause --runs 3": "sweep lag-and-pause --runs 1",
    "search --seeds 40": "search --seeds 2",
    "B41-raft-leader-same-epoch --seeds": "B41-raft-leader-same-epoch --first 44 --seeds",
    "isr_at_once.py --seeds": "isr_at_once.py --first 5 --seeds",
    "search payments.toml --first 21 --seeds 10": "search payments.toml --first 24 --seeds 2",
    "ask cluster.toml": "ask cluster.toml --runs 1 --only rolling",
    "--budget 20": "--budget 3",
    "serve split-brain": "serve split-brain --port 0 --for 2s",
}
CATALOGUE = ROOT / "scenarios" / "catalogue"
EXAMPLES = ROOT / "tests" / "example_project"
GIVEN = ROOT / "tests" / "scenarios" / "importing" / "examples"
FILES = {
    "my.toml": CATALOGUE / "gc-pause-fenced.toml",
    "billing.py": EXAMPLES / "billing.py",
    "payments.toml": EXAMPLES / "payments.toml",
    "isr_at_once.py": EXAMPLES / "isr_at_once.py",
    "docker-compose.yaml": GIVEN / "docker-compose.yaml",
}
"""The files that a user has made, where the commands run."""

EARLY = 3
"""So many of the commands are run by ``make test``."""

FAILS_ON_PURPOSE = 10
"""The exit code of a scripted fault whose variant is in force: a safety failure."""
ENDED = "ended with exit code "
ONE_AFTER_ANOTHER = f"""
import json, sys
from kafkasim.scenarios.cli import invoke
for line in sys.stdin:
    print("\\n{ENDED}%d" % invoke(json.loads(line)), flush=True)
"""
"""Runs commands in one process: a command of Spark's takes the session of the one before it."""


class Terminal:
    """A process that runs one command after another in a directory, each at most once."""

    def __init__(self, directory: Path) -> None:
        for name, path in FILES.items():
            shutil.copy(path, directory / name)
        self._process = subprocess.Popen(
            [sys.executable, "-c", ONE_AFTER_ANOTHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, "COLUMNS": "100"},
            text=True,
        )
        self._ended: dict[str, int] = {}

    def run(self, command: str) -> tuple[int, str]:
        """Run a command, after those that it needs; return its exit code and what it printed."""
        printed = ""
        for each in [*needed(command), command]:
            if each not in self._ended:
                self._ended[each], said = self._run(shortened(each).split()[1:])
                printed += said
        return self._ended[command], printed

    def _run(self, words: list[str]) -> tuple[int, str]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(words) + "\n")
        process.stdin.flush()
        printed = ""
        for line in process.stdout:
            if line.startswith(ENDED):
                return int(line.removeprefix(ENDED)), printed
            printed += line
        raise AssertionError(f"the process has died:\n{printed[-2000:]}")

    def close(self) -> None:
        self._process.communicate()


def written_by(command: str) -> str:
    """Return the file or directory that a command writes, or nothing."""
    words = command.split()
    option = next((each for each in ("--out", "--record") if each in words), None)
    return words[words.index(option) + 1] if option is not None else ""


def needed(command: str) -> list[str]:
    """Return the earlier commands whose results a command reads."""
    read = [word for word in command.split() if word != written_by(command)]
    return [
        each
        for each in COMMANDS[: COMMANDS.index(command)]
        if (place := written_by(each)) and any(f"{word}/".startswith(f"{place}/") for word in read)
    ]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    opened = Terminal(tmp_path_factory.mktemp("commands"))
    yield opened
    opened.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=pytest.mark.early if place < EARLY else ())
        for place, each in enumerate(COMMANDS)
    ],
)
def test_a_command_runs(terminal: Terminal, command: str) -> None:
    ended, printed = terminal.run(command)
    assert ended == (FAILS_ON_PURPOSE if breaks(command) else 0), printed[-2000:]


def test_the_readme_has_commands_and_each_is_another_one() -> None:
    assert len(COMMANDS) >= 20, COMMANDS
    assert len(set(COMMANDS)) == len(COMMANDS)


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
    assert {"demo", "test", "slow", "check", "bench", "soak"} <= set(named)
    missing = [target for target in named if not re.search(rf"^{target}:", makefile, re.M)]
    assert not missing, missing


@pytest.mark.slow
def test_the_lines_of_python_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FILES["my.toml"], tmp_path / "my.toml")
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
