"""``kafkasim shrink``: plain data with the same digest, then a small scenario that still fails."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import ScenarioError, load, parse
from kafkasim.scenarios.language.units import duration_text, offset_us
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.shrinking.journal import Journal
from kafkasim.scenarios.shrinking.plain import plain
from kafkasim.scenarios.shrinking.reducing import reductions, whole
from kafkasim.scenarios.shrinking.reducing.ddmin import ddmin, least
from kafkasim.scenarios.shrinking.shrink import Shrunk, shrink
from kafkasim.scenarios.shrinking.toml_file import toml_text
from kafkasim.scenarios.shrinking.trial import Trials

BUG = "B41-raft-leader-same-epoch"


# -------------------------------------------------------------------------------- plain data


@pytest.mark.parametrize("name", [*library.names(), *library.scripts()])
def test_plain_data_draws_nothing_and_survive_toml(name: str) -> None:
    """With another seed the plain data become themselves: no draw is left in them."""
    scenario, _ = library.scenario(name)
    data = plain(scenario, 1, [])
    assert plain(parse(data, name), 2, []) == data
    assert tomllib.loads(toml_text(data, ["a comment", "", "and more"])) == data


def test_plain_data_of_drawn_scenarios_draw_nothing() -> None:
    for seed in range(24):
        data = plain(parse(draw(seed), "drawn"), seed, [])
        assert plain(parse(data, "plain"), seed + 1, []) == data, seed
        assert tomllib.loads(toml_text(data)) == data, seed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 8, 11, 16])  # 5: a nemesis; 8, 11: excused losses
def test_the_plain_scenario_of_a_seed_has_its_digest(seed: int) -> None:
    scenario = parse(draw(seed), "drawn")
    data = plain(scenario, seed, [])
    assert run(parse(data, "plain"), seed).digest == run(scenario, seed).digest


def test_a_nemesis_becomes_guarded_faults_and_a_selector_a_host() -> None:
    data = {
        "name": "x", "claim": "x", "duration": "20s",
        "cluster": {"brokers": 3},
        "faults": [
            {"kind": "nemesis", "kinds": ["clock-step"], "gap": "4s"},
            {"kind": "gc-pause", "node": "any-broker", "at": ["1s", "2s"], "for": "1s",
             "every": "5s", "count": 2},
        ],
    }  # fmt: skip
    faults = plain(parse(data, "x"), 3, [])["faults"]
    drawn, paused = faults[:-2], faults[-2:]
    assert {(each["kind"], each["guarded"]) for each in drawn} == {("clock-step", True)}
    assert any(each["offset"].startswith("-") for each in drawn)
    assert all(list(each) == ["kind", "node", "at", "for"] for each in paused)
    assert all(each["node"].startswith("broker-") for each in paused)


@given(st.integers(-(10**12), 10**12))
def test_a_duration_is_written_as_it_is_read(us: int) -> None:
    assert offset_us(duration_text(us)) == us


# -------------------------------------------------------------------------------- reductions


@given(st.sets(st.integers(0, 40)), st.integers(0, 40))
def test_ddmin_leaves_what_is_needed_and_nothing_else(needed: set[int], more: int) -> None:
    items = list(range(41 + more))
    assert ddmin(items, lambda kept: needed <= set(kept)) == sorted(needed)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_least_cannot_be_lowered_by_one(one: int, other: int) -> None:
    high, needed = max(one, other), min(one, other)
    assert least(high, 1, lambda number: number >= needed) == needed


SMALL: dict[str, Any] = {
    "name": "x", "claim": "x", "duration": "4s",
    "cluster": {"brokers": 4, "nodes": {"broker-4": {"rack": "a"}}},
    "topics": [{"name": "orders", "partitions": 2, "replication-factor": 2,
                "assignment": [[4, 1], [1, 2]]}],
    "faults": [
        {"kind": "crash", "node": "broker-3", "at": "1s"},
        {"kind": "crash", "node": "leader:orders-1", "at": "2s"},
        {"kind": "partition", "node": "broker-4", "peers": ["broker-1"], "at": "3s"},
    ],
    "operations": [{"kind": "reassign", "topic": "orders", "partition": 1, "replicas": [4, 2],
                    "at": "1s"}],
}  # fmt: skip


def test_a_host_goes_with_what_names_it_and_the_others_move_up() -> None:
    _, smaller, *_ = whole.without_host(SMALL)  # the last one first
    assert smaller == SMALL | {
        "cluster": {"brokers": 3, "nodes": {"broker-3": {"rack": "a"}}},
        "topics": [SMALL["topics"][0] | {"assignment": [[3, 1], [1, 2]]}],
        "faults": [
            SMALL["faults"][1],
            {"kind": "partition", "node": "broker-3", "peers": ["broker-1"], "at": "3s"},
        ],
        "operations": [SMALL["operations"][0] | {"replicas": [3, 2]}],
    }


def test_a_host_goes_from_a_topic_that_has_lost_its_assignment() -> None:
    topic = {"name": "orders", "assignment": []}
    made = [each["topics"] for each in whole.without_host({"topics": [topic]})]
    assert made == [[topic]] * 3


def test_a_partition_goes_and_those_behind_it_move_up() -> None:
    first = list(whole.without_partition(SMALL))[-1]
    assert first == SMALL | {
        "topics": [SMALL["topics"][0] | {"partitions": 1, "assignment": [[1, 2]]}],
        "faults": [
            SMALL["faults"][0], SMALL["faults"][1] | {"node": "leader:orders-0"},
            SMALL["faults"][2],
        ],
        "operations": [SMALL["operations"][0] | {"partition": 0}],
    }  # fmt: skip


def test_every_reduction_gives_smaller_scenarios_whatever_tables_there_are() -> None:
    """The reductions know no table by name: one that nobody has thought of shrinks like others."""
    data = SMALL | {"weather": [{"kind": "rain", "for": "8s"}, {"kind": "snow", "for": "8s"}]}

    def keeps(candidate: dict[str, Any]) -> bool:
        return any(each.get("kind") == "snow" for each in candidate.get("weather", []))

    for reduction in reductions.ALL.values():
        data = reduction(data, keeps)
    assert data == {"name": "x", "claim": "x", "weather": [{"kind": "snow"}]}


# ------------------------------------------------------------------------------------- trials


def test_a_candidate_that_permits_the_anomaly_does_not_count() -> None:
    group = {"kind": "consumer-group", "commit": "sync"}
    data = {"name": "x", "claim": "x", "duration": "1s", "topics": [{"name": "t"}]}
    trials = Trials.__new__(Trials)
    trials.keep, trials._permitted = "skipped-by-commit", []
    assert not trials.keeps(data | {"workload": [{"kind": "consumer-group", "commit": "auto"}]})
    trials.keep, trials._limit = "no-progress", 1
    assert not trials.keeps(data | {"workload": [group]})  # it would need longer to converge


LATE = {"config": {"controller.quorum.election.timeout.ms": 3000}}
DECOYS: dict[str, Any] = {
    "name": "decoys", "claim": "A voter that lost its log does not lead again.", "duration": "1s",
    "cluster": {"brokers": 1, "config": {"metadata.max.idle.interval.ms": 50},
                "nodes": {"controller-2": LATE, "controller-3": LATE}},
    "topics": [{"name": "orders", "partitions": 2}],
    "faults": [
        {"kind": "slow-disk", "node": "controller-1", "at": "1ms", "factor": 1000},
        {"kind": "gc-pause", "node": "any-broker", "at": ["10ms", "1s"], "for": "100ms"},
        {"kind": "power-loss", "node": "controller-1", "at": "200ms"},
        {"kind": "flaky", "node": "broker-1", "loss": 0.1, "at": "30ms", "for": "100ms"},
    ],
    "operations": [{"kind": "elect-leader", "at": "300ms"}],
}  # fmt: skip
"""Two faults that matter with BUG in force, and others."""


def _shrunk(directory: Path, watch: Any = None) -> Shrunk:
    more = {} if watch is None else {"watch": watch}
    scenario = parse(DECOYS, "decoys")
    return shrink(scenario, 1, directory, variants=[BUG], budget=400, **more)


class Killed(Exception):
    """The process is killed."""


@pytest.mark.slow
def test_a_bug_shrinks_and_a_killed_shrink_goes_on(tmp_path: Path) -> None:
    done = _shrunk(tmp_path / "one")
    assert done.shrunk is not None
    assert (done.finished, done.keep) == (True, "META")
    small = load(done.shrunk)
    again = run(small, 1)
    assert ("META" in again.anomalies, again.digest) == (True, done.digest)
    alone = small.model_copy(update={"cluster": small.cluster.model_copy(update={"variants": []})})
    assert "META" not in run(alone, 1).anomalies
    kept = [(fault.kind, fault.node) for fault in small.faults]
    assert kept == [("slow-disk", "controller-1"), ("power-loss", "controller-1")]
    assert small.duration < load(done.drawn).duration
    assert small.cluster.brokers == 1  # the default is more

    def killer(_reduction: str, runs: int, _data: Any) -> None:
        if runs == done.runs // 2:
            raise Killed

    with pytest.raises(Killed):
        _shrunk(tmp_path / "other", killer)
    rest = _shrunk(tmp_path / "other")
    assert rest.runs < done.runs
    assert (tmp_path / "other/shrunk.toml").read_text() == done.shrunk.read_text()


def test_a_journal_about_something_else_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    journal = Journal(path, {"seed": 1})
    journal.add("a", True)
    journal.add("b", False)
    with path.open("a") as file:
        file.write("c kep")  # killed while it wrote
    assert Journal(path, {"seed": 1}).answers == {"a": True, "b": False}
    assert Journal(path, {"seed": 2}).answers == {}


@pytest.mark.slow
def test_the_command_writes_the_drawn_scenario_of_a_search_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = invoke(["shrink", "--from-search", "6", "--out", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["kept"], told["shrunk"]) == (0, None, None)
    assert invoke(["run", told["drawn"], "--seed", "6", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == told["drawn_digest"]
    assert told["drawn_digest"] == run(parse(draw(6), "drawn"), 6).digest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give SCENARIO, --from-search N, or both"),
        (["--from-search", "1", "--twin"], "--twin does not go with --from-search"),
        (["--from-search", "1", "--set", "duration=1s"], "--set needs SCENARIO"),
    ],
)
def test_a_wrong_call_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["shrink", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_an_anomaly_that_the_run_does_not_show_cannot_be_kept(tmp_path: Path) -> None:
    scenario, _ = library.scenario(BUG)
    with pytest.raises(ScenarioError, match="--keep unseen: seed 1 shows nothing"):
        shrink(scenario, 1, tmp_path, variants=[], keep="unseen", budget=9)


@pytest.mark.slow
def test_a_search_keeps_each_place_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed twice, in two searches: one directory, shrunk, explained, with its run."""
    words = ["search", "--variant", BUG, "--json", "--budget", "3", "--out", str(tmp_path)]
    assert invoke([*words, "--first", "44", "--seeds", "9"]) == 0
    seed = json.loads(capsys.readouterr().out)["found"]["seed"]
    assert invoke([*words, "--first", str(seed), "--seeds", "1"]) == 0
    capsys.readouterr()
    (kept,) = json.loads((tmp_path / "failures.json").read_text())
    assert (kept["place"][0], kept["seeds"], kept["variants"]) == ("META", [seed], [BUG])
    directory = tmp_path / kept["directory"]
    assert run(load(directory / "shrunk.toml"), seed).anomalies
    assert "=> controller-" in (directory / "explanation.txt").read_text()
    assert (directory / "run" / "trace.parquet").exists()
    assert "META" in (directory / "report.html").read_text()
