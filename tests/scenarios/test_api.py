"""``import kafkasim``: run a scenario from Python, read its verdict, facts and story."""

from __future__ import annotations

import base64
import gc
import subprocess
import sys
from dataclasses import replace

import pytest

import kafkasim

SMALL = {
    "name": "small",
    "claim": "Two brokers keep what they acknowledged.",
    "duration": "2s",
    "cluster": {"brokers": 2, "controllers": 1},
    "topics": [{"name": "orders", "partitions": 1, "replication-factor": 2}],
    "workload": [{"kind": "producer", "rate": "20/s"}],
    "twin": {"claim": "One broker fewer.", "set": {"duration": "1s"}, "fails": ["lost-write"]},
}


@pytest.mark.slow
def test_a_run_has_a_verdict_facts_and_a_story():
    outcome = kafkasim.run(SMALL, seed=3)
    assert (outcome.verdict, outcome.anomalies) == ("pass", [])
    acked = outcome.facts("Acked")
    assert acked.column_names[:3] == ["seq", "t_us", "node"]
    assert acked.num_rows > 20
    everything = outcome.facts()
    assert (
        everything.filter(everything["kind"].to_numpy(False) == "Acked").num_rows == acked.num_rows
    )
    assert outcome.story()


@pytest.mark.slow
def test_a_notebook_shows_verdict_findings_and_the_timeline_of_a_run():
    lost = kafkasim.run("split-brain", settings={"duration": "60s"})
    shown = lost._repr_html_()
    assert shown.startswith("<b>expected(lost-write)  split-brain  seed 1  ")
    assert "<pre>  lost-write in weak-" in shown
    assert "records, first: " in shown
    picture = base64.b64decode(shown.partition("base64,")[2].partition('"')[0])
    assert picture.startswith(b"\x89PNG")

    marked = replace(lost, result=replace(lost.result, scenario="a<b>&c"))
    assert "a&lt;b&gt;&amp;c" in marked._repr_html_()


@pytest.mark.slow
def test_the_same_call_gives_the_same_digest_and_a_setting_another(tmp_path):
    first = kafkasim.run(SMALL, seed=3, directory=str(tmp_path / "run"))
    assert (tmp_path / "run" / "manifest.json").exists()
    assert kafkasim.run(SMALL, seed=3).digest == first.digest
    assert kafkasim.run(SMALL, seed=3, settings={"workload.0.rate": "40/s"}).digest != first.digest
    assert kafkasim.run(SMALL, seed=3, twin=True).result.sim_seconds < first.result.sim_seconds


@pytest.mark.slow
def test_a_built_in_scenario_takes_settings_and_variants():
    outcome = kafkasim.run("acks-one-loses", settings={"duration": "1s"}, twin=False)
    assert outcome.result.scenario == "acks-one-loses"


@pytest.mark.slow
def test_a_temporary_trace_goes_with_the_outcome():
    outcome = kafkasim.run(SMALL)
    directory = outcome.directory
    assert directory.exists()
    del outcome
    gc.collect()
    assert not directory.exists()


def test_mistakes_are_one_line_that_names_the_place():
    with pytest.raises(kafkasim.ScenarioError, match=r"no scenario 'split-brian'; did you mean"):
        kafkasim.run("split-brian")
    with pytest.raises(kafkasim.ScenarioError, match=r"the scenario: cluster.brokers: .*integer"):
        kafkasim.run(SMALL | {"cluster": {"brokers": "many"}})
    with pytest.raises(kafkasim.ScenarioError, match=r"no variant 'B1'; did you mean B"):
        kafkasim.run(SMALL, variants=["B1"])
    for seed in (-1, "3", True):
        with pytest.raises(kafkasim.ScenarioError, match=r"seed: .* allowed: integers from 0"):
            kafkasim.run(SMALL, seed=seed)
    with pytest.raises(AttributeError, match="'kafkasim' has no attribute 'fleet'"):
        _ = kafkasim.fleet


def test_importing_kafkasim_loads_nothing_else():
    code = (
        "import kafkasim, sys; assert 'run' in dir(kafkasim);"
        " print([m for m in sys.modules if m.startswith('kafkasim.')])"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
