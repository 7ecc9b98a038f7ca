"""The command line: what it prints, and the exit code of every kind of ending."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkasim.scenarios.cli import COMMANDS, invoke
from kafkasim.scenarios.commands import runs, searching
from kafkasim.scenarios.commands.common import exit_code
from kafkasim.scenarios.running import runner
from kafkasim.scenarios.running.report import command
from kafkasim.scenarios.running.runner import run as run_once
from kafkasim.scenarios.searching.search import Finding, search
from kafkasim.sim.trace.store import TRACE_FILE, code_version

SMALL = """
name = "small"
claim = "Two brokers replicate."
duration = "2s"
[cluster]
brokers = 2
controllers = 1
config = { "offsets.topic.num.partitions" = 2 }
[[topics]]
name = "orders"
partitions = 2
replication-factor = 2
[[workload]]
kind = "producer"
rate = "20/s"
[twin]
claim = "Nothing of that name is seen."
set = { "expect.must-see" = ["failover"] }
fails = ["missing:failover"]
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = invoke(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys)
    assert (code, err) == (0, "")
    assert "kafkasim run gc-pause-isr-flapping" in out


def test_help_and_list_import_neither_the_model_nor_arrow() -> None:
    """The first screen takes 0.3 s of CPU; with the model it would take five times as long."""
    heavy = "[each for each in ('kafkasim.model', 'networkx', 'pyarrow') if each in sys.modules]"
    told = f"import sys; from kafkasim.scenarios.cli import invoke; invoke([ARGS]); print({heavy})"
    for arguments in ("'--help'", "'list', '--json'"):
        program = told.replace("ARGS", arguments)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert ran.stdout.splitlines()[-1] == "[]", ran.stderr


def test_a_run_imports_no_library_and_no_role_that_it_does_not_use(small: str) -> None:
    heavy = [
        *("networkx", "pyarrow", "numpy", "matplotlib", "pyspark", "rich"),
        *("kafkasim.analysis.story", "kafkasim.scenarios.applications.loading"),
        *("kafkasim.model.broker.zk", "kafkasim.model.zookeeper.server"),
        *("kafkasim.scenarios.running.streaming", "kafkasim.model.streams.dsl"),
    ]
    told = f"print([each for each in {heavy} if each in sys.modules])"
    program = f"import sys; from kafkasim.scenarios.cli import invoke; invoke(['run', {small!r}])"
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}; {told}"], capture_output=True, text=True
    )
    verdict, imported = ran.stdout.splitlines()
    assert verdict.startswith("pass")
    assert imported == "[]"


def test_settings_may_stand_in_a_file(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "some.settings"
    settings.write_text("duration=2s\n\nnonsense.key=1\n")
    code, _, err = _run(capsys, "run", small, "--set", f"@{settings}")
    assert (code, "nonsense" in err) == (2, True)
    code, _, err = _run(capsys, "run", small, "--set", f"@{tmp_path}/none")
    assert (code, err.count("\n")) == (2, 1)
    assert f"--set @{tmp_path}/none: no file of lines KEY=VALUE" in err


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([name, "--help"]) == 0
    assert f"Usage: kafkasim {name}" in capsys.readouterr().out


def test_list_json_names_every_scenario_with_its_claim(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "list", "--json")
    listed = json.loads(out)
    assert code == 0
    assert "gc-pause-isr-flapping" in [scenario["name"] for scenario in listed]
    assert all(list(scenario) == ["name", "claim", "permits"] for scenario in listed)


def test_list_json_of_variants(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "list", "--variants", "--json")
    listed = json.loads(out)
    assert code == 0
    assert all(list(v) == ["id", "source", "breaks", "scenario", "claim"] for v in listed)


@pytest.mark.slow
def test_run_json_is_exactly_one_object(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "run", small, "--seed", "7", "--json")
    result = json.loads(out)
    wanted = {"scenario", "seed", "digest", "verdict", "anomalies", "events", "sim_seconds",
              "wall_seconds", "code_version", "config_digest"}  # fmt: skip
    assert wanted <= set(result)
    assert (code, result["scenario"], result["seed"], result["verdict"]) == (0, "small", 7, "pass")


@pytest.mark.slow
def test_several_runs_are_a_list_and_a_seed_is_one_run(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = _run(capsys, "run", small, "--runs", "2", "--seed", "7", "--json")
    both = json.loads(out)
    _, again, _ = _run(capsys, "run", small, "--seed", "8", "--json")
    assert code == 0
    assert [result["seed"] for result in both] == [7, 8]
    assert both[1]["digest"] == json.loads(again)["digest"] != both[0]["digest"]


@pytest.mark.slow
def test_a_failure_shows_a_command_that_replays_it(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = _run(
        capsys, "run", small, "--seed", "3", "--set", 'expect.must-see=["failover"]'
    )
    assert code == 10
    assert "safety failure: missing:failover" in out
    assert f"replay: kafkasim run {small} --seed 3 --set 'expect.must-see=[\"failover\"]'" in out
    assert "trace.parquet" in out


@pytest.mark.slow
def test_a_twin_that_fails_as_named_is_as_expected(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = _run(capsys, "run", small, "--twin")
    assert code == 0
    assert "twin: failed as it must (missing:failover)" in out


@pytest.mark.slow
def test_a_crash_of_the_simulator_shows_traceback_and_replay(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> runner.Result:
        raise AssertionError("hw 7 above leo 5")

    monkeypatch.setattr(runs, "run_once", broken)
    code, out, err = _run(capsys, "run", small, "--seed", "3")
    assert (code, out) == (1, "")
    assert "AssertionError: hw 7 above leo 5" in err
    assert f"replay: kafkasim run {small} --seed 3" in err


def test_a_crash_of_the_simulator_leaves_the_trace_until_then(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: runner.ScenarioRun) -> None:
        raise AssertionError("hw 7 above leo 5")

    monkeypatch.setattr(runner.ScenarioRun, "_liveness", broken)
    code, _, err = _run(capsys, "run", small, "--out", str(tmp_path))
    assert code == 1
    assert f"trace:  until the crash, {tmp_path / TRACE_FILE}" in err
    assert pq.read_table(tmp_path / TRACE_FILE).num_rows > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "gc-pause-isr-flaping"], "did you mean gc-pause-isr-flapping"),
        (["run", "nowhere.toml"], "nowhere.toml: no such file"),
        (["run", "split-brain", "--variant", "X99"], "no variant 'X99'"),
        (["run", "split-brain", "--set", "duration"], "give key=value"),
        (["run", "split-brain", "--set", "durration=5s"], "durration: unknown key"),
        (["run", "split-brain", "--seed", "minus"], "--seed"),
        (["run", "split-brain", "--runs", "0"], "--runs"),
        (["run"], "Missing argument 'SCENARIO'. (see kafkasim run --help)"),
        (["runn"], "No such command 'runn'"),
        (["describe", "x", "topic"], "for 'VIEW': 'topic' is not one of 'topics', 'groups'"),
        (["plot", "isr", "x"], "for 'KIND': 'isr' is not one of 'isr-flapping', "),
        (["replay", "nowhere"], "nowhere: no such directory"),
        (["describe", "nowhere", "topics"], "nowhere: no such directory"),
        (["metrics", "nowhere"], "nowhere: no such directory"),
        (["fleet", "no-such-scenario"], "no scenario 'no-such-scenario'"),
        (["check", "nowhere"], "nowhere: no such directory"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    code, out, err = _run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("kafkasim: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_the_version_names_the_code_and_kafkas_releases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = _run(capsys, "--version")
    wanted = f"kafkasim, code {code_version()[:12]}, models Kafka 2.8-zk, 3.9, 4.0, 4.1\n"
    assert (code, out) == (0, wanted)


def test_paragraphs_of_a_help_fill_its_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = _run(capsys, "run", "--help")
    told = " Prints one line if the run went as expected. For a failure it prints what was"
    first, second = out.split(told)[1].splitlines()[:2]
    assert (code, first.strip()) == (0, "")
    assert second.startswith(" found, the events, and the command that replays the run. Times")


def test_the_runs_until_ctrl_c_are_shown(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_is_stopped(scenario: Any, seed: int, *others: Any) -> Any:
        if seed == 1:
            raise KeyboardInterrupt
        return run_once(scenario, seed, *others)

    monkeypatch.setattr(runs, "run_once", second_is_stopped)
    code, out, err = _run(capsys, "run", small, "--runs", "3")
    assert (code, err) == (130, "stopped after 1 of 3 runs\n")
    assert "small: 1 run" in out


def test_the_seeds_of_a_search_until_ctrl_c_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "run_search", _one_seed)
    code, out, err = _run(capsys, "search", "--seeds", "3")
    assert (code, err) == (130, "stopped after 1 of 3 seeds\n")
    assert out.startswith("1 seeds (1 kraft), ")


def _one_seed(*_: Any) -> Iterator[Finding]:
    yield from search(range(2, 3), [], 1)
    raise KeyboardInterrupt


def test_an_output_directory_that_is_a_file_is_refused(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = _run(capsys, "run", small, "--out", small)
    assert (code, err.count("\n")) == (2, 1)
    assert f"--out {small}: cannot be written" in err


def test_safety_goes_before_liveness() -> None:
    def ended(verdict: str, failure: str) -> Any:
        return type("Ended", (), {"verdict": verdict, "failure": failure})()

    well, lost, stuck = ended("expected", ""), ended("fail", "safety"), ended("fail", "liveness")
    assert [exit_code(r) for r in ([well], [well, stuck], [stuck, lost])] == [0, 11, 10]


def test_a_replay_command_can_be_pasted() -> None:
    assert command(4, "a b.toml", ["x.y=[1, 2]"], ["M01"], twin=True) == (
        "kafkasim run 'a b.toml' --seed 4 --set 'x.y=[1, 2]' --variant M01 --twin --runs 1"
    )


def test_a_directory_without_a_finished_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, "replay", str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{tmp_path}: no finished run in this directory (no manifest.json)" in err
