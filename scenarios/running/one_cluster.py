"""One cluster of a stored run of several, as the directory of a run of that cluster alone.

What reads a stored run reads one cluster. So a run of several clusters is shown cluster by cluster:
the facts that the judges of a cluster see, under the names that its hosts have in it, and the
manifest that a run of this cluster would have. Row numbers stay those of the whole trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.analysis.judging.cluster_facts import ClusterFacts
from kafkasim.analysis.judging.courts import StoredTrace, courts_of
from kafkasim.analysis.judging.finding import NO_PROGRESS
from kafkasim.analysis.judging.stored import facts_of
from kafkasim.model.facts import FACTS
from kafkasim.scenarios.language.clusters import members
from kafkasim.scenarios.running.replay import stored_scenario
from kafkasim.sim.trace.reading import open_trace, readable
from kafkasim.sim.trace.store import TRACE_FILE, write_manifest

WHOLE = "whole"
"""The key of such a manifest that has the whole scenario, and the name of the cluster."""


def write_one_cluster(directory: Path, cluster: str, target: Path) -> Path:
    """Write what a stored run was for one of its clusters to ``target``, and return that.

    The cluster is judged again, by this code.

    Raises:
        ManifestError: there is no whole run in the directory.
        ScenarioError: this code cannot read its scenario.
    """
    scenario, manifest = stored_scenario(directory)
    trace = open_trace(directory)
    with readable(directory):
        table = trace.read()
    told = StoredTrace()
    courts = courts_of(manifest, told)
    names: dict[int, str] = {}  # by seq: the node, as the cluster knows it
    targets: dict[int, str] = {}  # by seq: of a fault

    def on_fact(seq: int, _t: int, node: str, fact: Any) -> None:
        names[seq] = node
        if node == "world" and hasattr(fact, "target"):
            targets[seq] = fact.target

    mine = ClusterFacts(told, cluster)
    for fact_type in FACTS.values():
        mine.subscribe(fact_type, on_fact)
    told.feed(facts_of(table))
    rows = _renamed(table, names, targets)
    target.mkdir()
    pq.write_table(rows, target / TRACE_FILE)
    spec = members(scenario)[cluster].model_dump(mode="json", by_alias=True)
    verdict = courts.verdict_on(cluster, int(manifest["ready_us"]))
    stalls = [each.text for each in verdict.findings if each.name == NO_PROGRESS]
    alone: Mapping[str, Any] = {
        **manifest,
        "rows": rows.num_rows,
        "spec": spec,
        WHOLE: {"spec": manifest["spec"], "cluster": cluster},
        "topics": courts.of(cluster).topics,
        "observations": courts.of(cluster).observer.seen,
        "judged_by": manifest["judged_by"]["clusters"][cluster],
        "findings": [asdict(each) for each in verdict.findings],
        "verdict": verdict.word,
        "anomalies": verdict.failed or verdict.expected,
        "expected": verdict.expected,
        "missing": stalls,
        "reason": "; ".join(stalls) or "converged",
    }
    write_manifest(target, alone)
    return target


def _renamed(table: pa.Table, names: Mapping[int, str], targets: Mapping[int, str]) -> pa.Table:
    """Return the rows that have a name, with their nodes and the targets of faults by seq."""
    rows = table.filter(pc.is_in(table["seq"], value_set=pa.array(names, table["seq"].type)))
    seqs = rows["seq"].to_pylist()
    given = {
        "node": [names[seq] for seq in seqs],
        "target": [
            targets.get(seq, here)
            for seq, here in zip(seqs, rows["target"].to_pylist(), strict=True)
        ],
    }
    for column, values in given.items():
        at = rows.schema.get_field_index(column)
        field = rows.schema.field(column)
        rows = rows.set_column(at, field, pa.array(values, field.type))
    return rows
