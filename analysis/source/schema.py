"""The two tables that everything in analysis/ reads: ``runs`` and ``facts``.

``runs`` has a row for each run. ``facts`` has a row for each fact of a run, wide: its kind and the
columns of all kinds, of which those of the other kinds are null. ``run`` joins the two. A stored
fleet adds ``batch`` to both; :mod:`kafkasim.analysis.fleet` says what that is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

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
    "partitions": "ARRAY<STRUCT<topic_id: STRING, partition: BIGINT, reason: STRING>>",
    "losses": "ARRAY<STRUCT<topic_id: STRING, partition: BIGINT, first: BIGINT, end: BIGINT,"
    " seq: BIGINT, t_us: BIGINT, reason: STRING>>",
    "homes": "ARRAY<STRUCT<group: STRING, topic_id: STRING, partition: BIGINT>>",
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
    "partitions": pa.list_(
        pa.struct([("topic_id", pa.string()), ("partition", pa.int64()), ("reason", pa.string())])
    ),
    "losses": pa.list_(
        pa.struct(
            [
                ("topic_id", pa.string()),
                ("partition", pa.int64()),
                ("first", pa.int64()),
                ("end", pa.int64()),
                ("seq", pa.int64()),
                ("t_us", pa.int64()),
                ("reason", pa.string()),
            ]
        )
    ),
    "homes": pa.list_(
        pa.struct([("group", pa.string()), ("topic_id", pa.string()), ("partition", pa.int64())])
    ),
}

RUNS: dict[str, str] = {
    "run": "string",  # label/seed-000007; the key of both tables
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
    "permits": "list<string>",  # anomalies that the scenario permits
    "topics": "map<string, string>",  # topic id to name
    "stall_excuse": "string",  # why Kafka would not make progress either; "" if it should
    "losses": "losses",  # records that partitions lost in a way that Kafka allows
    "reopened_partitions": "partitions",  # and went on in the old leader epoch (ZooKeeper)
    "offsets_partitions": "homes",  # each group's partition of __consumer_offsets
    "code_version": "string",  # a digest of the sources that decide a run
    "config_digest": "string",  # of everything else that decides a run besides the seed
    "schema_version": "string",  # of the facts
    "spec": "string",  # the scenario that ran, as JSON
    "judged_by": "string",  # the settings that judges took from it, as JSON
    "traceback": "string",  # of a crash, else null
    "missing": "list<string>",  # what kept the run from converging
    "findings": "string",  # of the run's judges, as JSON; for `kafkasim explain`
}
"""The columns of ``runs``, name to type. Nothing in it depends on the machine or the clock."""

FACTS_TABLE: dict[str, str] = {"run": "string", **COLUMNS}
"""The columns of ``facts``: the run, then those of the trace (``model/facts``)."""

RUN_KIND = "Run"
MANIFEST = "manifest"
FLEET: dict[str, str] = {**FACTS_TABLE, MANIFEST: "string"}
"""The columns of what a fleet writes: its facts, and for each run a row of the kind ``Run`` with
the row of ``runs`` as JSON."""

_EMPTY: dict[str, Any] = {
    "string": "", "int64": 0, "double": 0.0, "bool": False, "list<string>": [], "partitions": [],
    "losses": [], "homes": [],
    "map<string, int64>": {}, "map<string, string>": {},
}  # fmt: skip

STRUCTS = {
    "losses": ("topic_id", "partition", "first", "end", "seq", "t_us", "reason"),
    "reopened_partitions": ("topic_id", "partition", "reason"),
    "offsets_partitions": ("group", "topic_id", "partition"),
}
"""The columns that are lists of structs, and the fields in the order of the manifest."""

AS_JSON: dict[str, Any] = {"spec": {}, "findings": [], "judged_by": {}}
"""The columns of ``runs`` that are JSON, and what a manifest without them has there."""

TABLES = {"runs": RUNS, "facts": FACTS_TABLE, "fleet": FLEET}


def ddl(columns: Mapping[str, str]) -> str:
    """Return the columns as Spark declares them."""
    return ", ".join(f"`{name}` {_SQL[declared]}" for name, declared in columns.items())


def arrow(columns: Mapping[str, str]) -> pa.Schema:
    """Return the columns as Arrow's schema."""
    return pa.schema([(name, _ARROW[declared]) for name, declared in columns.items()])


def stored_row(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of ``runs`` from a manifest that names run and label."""
    row = {name: manifest.get(name, _EMPTY[declared]) for name, declared in RUNS.items()}
    for name, nothing in AS_JSON.items():
        row[name] = json.dumps(manifest.get(name, nothing), sort_keys=True)
    row["traceback"] = manifest.get("traceback")
    for name, fields in STRUCTS.items():
        row[name] = [dict(zip(fields, one, strict=True)) for one in row[name]]
    return row


def manifest_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest that a row of ``runs`` was made from (see :func:`stored_row`).

    What is null, as in a table from before a column existed, the manifest has not.
    """
    manifest = {name: value for name, value in row.items() if value is not None}
    for name in AS_JSON:
        if name in manifest:
            manifest[name] = json.loads(manifest[name])
    for name, fields in STRUCTS.items():
        manifest[name] = [[one[field] for field in fields] for one in manifest.get(name, [])]
    for name, declared in RUNS.items():
        if declared.startswith("map<"):
            manifest[name] = dict(manifest.get(name, {}))
    return manifest


def arrow_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of ``runs`` as Arrow takes it, which wants the pairs of a map."""
    maps = [name for name, declared in RUNS.items() if declared.startswith("map<")]
    return {**row, **{name: list(row[name].items()) for name in maps}}
