"""The three tables that everything in analysis/ reads: ``runs``, ``facts`` and ``findings``.

``runs`` has a row for each run. ``facts`` has a row for each fact of a run, wide: its kind and the
columns of all kinds, of which those of the other kinds are null. ``findings`` has a row for each
occurrence of what a run did that a guarantee or its scenario forbids, as its judges say. ``run``
joins the three. A stored fleet adds ``batch``; :mod:`kafkasim.analysis.fleet` says what that is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa

from kafkasim.analysis.judging.finding import CRASH, Finding
from kafkasim.model.facts import COLUMNS

_SQL = {
    "int64": "BIGINT",
    "double": "DOUBLE",
    "string": "STRING",
    "bool": "BOOLEAN",
    "list<int64>": "ARRAY<BIGINT>",
    "list<string>": "ARRAY<STRING>",
    "map<string, int64>": "MAP<STRING, BIGINT>",
    "map<string, string>": "MAP<STRING, STRING>",
}
_ARROW = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "list<int64>": pa.list_(pa.int64()),
    "list<string>": pa.list_(pa.string()),
    "map<string, int64>": pa.map_(pa.string(), pa.int64()),
    "map<string, string>": pa.map_(pa.string(), pa.string()),
}

RUNS: dict[str, str] = {
    "run": "string",  # label/seed-000007; the key of all tables
    "label": "string",  # the configuration: all runs of a label differ in their seed only
    "scenario": "string",
    "seed": "int64",
    "twin": "bool",  # whether the scenario's twin ran
    "settings": "list<string>",  # KEY=VALUE, as given with --set
    "variants": "list<string>",  # those of the scenario, the twin and the command line
    "verdict": "string",  # pass, expected, fail or crash, as the run judged itself
    "failure": "string",  # safety, liveness or crash; "" if it did not fail
    "anomalies": "list<string>",
    "expected": "list<string>",  # those of the anomalies that are permitted or excused
    "digest": "string",  # of all facts: equal runs have equal digests; "" of a crash
    "rows": "int64",  # how many facts
    "exchanges": "int64",  # requests and responses on the simulated network
    "ready_us": "int64",  # when the cluster was ready; a scenario's durations count from here
    "sim_seconds": "double",  # simulated, boot and liveness phase included
    "reason": "string",  # converged, or what was missing; of a crash its exception
    "observations": "map<string, int64>",  # what [expect] can name: when each was first seen, in µs
    "topics": "map<string, string>",  # topic id to name
    "found": "int64",  # how many rows of findings
    "judges": "string",  # a digest of the sources that decide what is found
    "code_version": "string",  # a digest of the sources that decide a run
    "config_digest": "string",  # of everything else that decides a run besides the seed
    "schema_version": "string",  # of the facts
    "spec": "string",  # the scenario that ran, as JSON
    "judged_by": "string",  # the settings that judges took from it, as JSON
    "traceback": "string",  # of a crash, else null
    "missing": "list<string>",  # what kept the run from converging
}
"""The columns of ``runs``, name to type. Nothing in it depends on the machine or the clock."""

FACTS_TABLE: dict[str, str] = {"run": "string", **COLUMNS}
"""The columns of ``facts``: the run, then those of the trace (``model/facts``)."""

FINDINGS: dict[str, str] = {
    "run": "string",
    "name": "string",  # of the guarantee or anomaly; missing:…, seen:…, no-progress, crash
    "topic": "string",  # "" for a finding that concerns no partition
    "topic_id": "string",
    "partition": "int64",  # −1 for none
    "group": "string",  # the consumer group; "" for none
    "seq": "int64",  # the row of the facts that showed it; −1: it shows at the end only
    "t_us": "int64",  # when that was; −1 unknown
    "offset": "int64",  # of the first record concerned; −1: of no single record
    "record_id": "int64",  # of that record; −1 unknown
    "count": "int64",  # how many records, or occurrences, it stands for
    "text": "string",  # what disagrees, in one sentence; of several, the first
    "expected_by": "string",  # the loss or hole that covers it, or permitted; "" if it failed
    "cause": "string",  # why the configuration lets it happen; "" for no reason
    "failed": "bool",  # whether nothing covers it
}
"""The columns of ``findings`` (``judging/finding.py:Finding``)."""

_EMPTY: dict[str, Any] = {
    "string": "", "int64": 0, "double": 0.0, "bool": False, "list<string>": [],
    "map<string, int64>": {}, "map<string, string>": {},
}  # fmt: skip

AS_JSON = ("spec", "judged_by")
"""The columns of ``runs`` that are objects in a manifest, and JSON here."""

TABLES = {"runs": RUNS, "facts": FACTS_TABLE, "findings": FINDINGS}


def ddl(columns: Mapping[str, str]) -> str:
    """Return the columns as Spark declares them."""
    return ", ".join(f"`{name}` {_SQL[declared]}" for name, declared in columns.items())


def arrow(columns: Mapping[str, str]) -> pa.Schema:
    """Return the columns as Arrow's schema."""
    return pa.schema([(name, _ARROW[declared]) for name, declared in columns.items()])


def stored_row(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of ``runs`` from a manifest that names run and label."""
    row = {name: manifest.get(name, _EMPTY[declared]) for name, declared in RUNS.items()}
    found = len(finding_rows(manifest))
    row |= {"found": found, "traceback": manifest.get("traceback")}
    return row | {name: json.dumps(manifest.get(name, {}), sort_keys=True) for name in AS_JSON}


def finding_rows(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of ``findings`` of a run, from a manifest that names it; a crash is one."""
    run, topics = manifest["run"], manifest.get("topics", {})
    found = [dict(one) for one in manifest.get("findings", [])]
    if manifest["verdict"] == CRASH:
        found = [asdict(Finding(CRASH, "", -1, str(manifest.get("reason", ""))))]
    return [
        {**one, "run": run, "topic": topics.get(one["topic_id"], one["topic_id"]),
         "failed": not one["expected_by"]}
        for one in found
    ]  # fmt: skip


def manifest_of(row: Mapping[str, Any], found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the manifest that a row of ``runs`` and its findings were made from.

    What is null, as in a table from before a column existed, the manifest has not.
    """
    manifest = {name: value for name, value in row.items() if value is not None}
    manifest |= {name: json.loads(manifest[name]) for name in AS_JSON if name in manifest}
    names = [field.name for field in fields(Finding)]
    manifest["findings"] = [{name: one[name] for name in names} for one in found]
    for name, declared in RUNS.items():
        if declared.startswith("map<"):
            manifest[name] = dict(manifest.get(name, {}))
    return manifest


def arrow_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ``runs`` as Arrow takes it, which wants the pairs of a map."""
    maps = [name for name, declared in RUNS.items() if declared.startswith("map<")]
    return {**row, **{name: list(row[name].items()) for name in maps}}
