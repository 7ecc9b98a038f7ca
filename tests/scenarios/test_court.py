"""A stored run is judged as it was when it ran."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkasim.analysis.judging.courts import judge_stored
from kafkasim.analysis.judging.stored import facts_of
from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.runner import run
from kafkasim.sim.trace.store import TRACE_FILE, read_manifest

QUICK = ("split-brain", "M08-no-sequence-check")
RUNS = (
    ("acks-one-loses", ""),
    ("zk-split-brain", ""),
    ("exactly-once", ""),
    ("store-offsets-with-results", ""),
    ("B92-share-start-moves-back", "B92-share-start-moves-back"),
    ("B80-clean-above-hw", "B80-clean-above-hw"),
    ("B68-static-duplicate-instance", "B68-static-duplicate-instance"),
    ("B85-old-consumer-reads-on", "B85-old-consumer-reads-on"),
)


@pytest.mark.parametrize(
    ("name", "variant"), [QUICK, *[pytest.param(*each, marks=pytest.mark.slow) for each in RUNS]]
)
def test_a_stored_run_has_the_findings_of_the_live_one(
    tmp_path: Path, name: str, variant: str
) -> None:
    scenario, _ = library.scenario(name)
    live = run(scenario, 1, tmp_path, [variant] if variant else [])
    stored = judge_stored(read_manifest(tmp_path), facts_of(pq.read_table(tmp_path / TRACE_FILE)))
    assert stored == live.findings
    assert stored
