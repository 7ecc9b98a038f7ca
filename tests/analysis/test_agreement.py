"""Two judges of real runs agree: judging/delivery.py in memory, the checks from the trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DELIVERY = (
    "lost-write", "unseen", "duplicate", "inconsistent-offsets", "poll-skip", "nonmonotonic-poll",
    "nonmonotonic-send", "offset-regression", "skipped-by-commit",
    "application-failed",
)  # fmt: skip

FAULTS = {
    "quiet": [],
    "crash": [{"kind": "crash", "node": "leader:orders-0", "at": "2s", "for": "3s"}],
    "application": [],  # the members ask for a session that the coordinator refuses
    "member": [{"kind": "gc-pause", "node": "any-consumer", "at": "2s", "for": "8s"}],
    # Readers of both isolation levels pass over markers, one of them over aborted records, too.
    "transactions": [{"kind": "crash", "node": "leader:orders-0", "at": "2s", "for": "3s"}],
}

TRANSACTIONAL = [
    {"kind": "producer", "rate": "40/s", "transactional-id": "writer", "abort-share": 0.3,
     "transaction-records": 4},
    {"kind": "consumer-group", "group": "committed", "commit": "first", "count": 2,
     "config": {"session.timeout.ms": 6000, "isolation.level": "read_committed"}},
    {"kind": "consumer-group", "group": "all", "config": {"session.timeout.ms": 6000}},
]  # fmt: skip


def scenario(name: str) -> dict[str, object]:
    return {
        "name": name,
        "claim": "Two judges agree.",
        "duration": "8s",
        "cluster": {"brokers": 3, "controllers": 1,
                    "config": {"offsets.topic.num.partitions": 1,
                               "transaction.state.log.num.partitions": 1}},
        "topics": [{"name": "orders", "partitions": 2, "replication-factor": 3}],
        "workload": TRANSACTIONAL if name == "transactions" else [
            {"kind": "producer", "rate": "20/s", "config": {"acks": "1"}},
            {"kind": "consumer-group", "count": 2, "commit": "first",
             "config": {"session.timeout.ms": 5999 if name == "application" else 6000}},
        ],
        "faults": FAULTS[name],
    }  # fmt: skip


def nowhere(partition: int | None) -> int:
    return -1 if partition is None else partition


OF_TRANSACTIONS = (
    "aborted-read", "precommitted-read", "torn-transaction", "hanging-transaction",
    "zombie-producer", "lost-output", "duplicate-output",
)  # fmt: skip

SCRIPTS = {
    "exactly-once": (),
    "at-least-once": (),
    "at-most-once": (),
    "B46-hanging-txn-late-produce": ("B46-hanging-txn-late-produce",),
    "B48-txn-timeout-no-epoch-bump": ("B48-txn-timeout-no-epoch-bump",),
    "B61-zombie-offsets-in-txn": ("B61-zombie-offsets-in-txn",),
}
"""Scenarios of transactions, each with the variants under which it runs."""


def test_judges_of_transactions_agree(spark: SparkSession, tmp_path: Path) -> None:
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge

    expected: dict[str, list[tuple[str, int, int]]] = {}
    for name, variants in SCRIPTS.items():
        result = run(library.scenario(name)[0], 1, tmp_path / name, variants)
        found_by_run = [(a.name, a.partition, a.count) for a in result.delivery]
        expected[name] = sorted(each for each in found_by_run if each[0] in OF_TRANSACTIONS)
    named = {anomaly for found in expected.values() for anomaly, _, _ in found}
    assert named >= {"torn-transaction", "hanging-transaction", "lost-output", "duplicate-output"}
    found: dict[str, list[tuple[str, int, int]]] = {name: [] for name in SCRIPTS}
    for one in judge(open_stored(spark, str(tmp_path))).found:
        if one.check != "run" and one.anomaly in OF_TRANSACTIONS:
            found[one.run].append((one.anomaly, nowhere(one.partition), one.count))
    assert {name: sorted(rows) for name, rows in found.items()} == expected


def test_delivery_and_checks_agree(spark: SparkSession, tmp_path: Path) -> None:
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge

    expected = {}
    for name in FAULTS:
        result = run(parse(scenario(name), name), 1, tmp_path / name)
        expected[name] = sorted((a.name, a.partition, a.count) for a in result.delivery)
    assert expected["application"] == [("application-failed", -1, 2)]
    found: dict[str, list[tuple[str, int, int]]] = {name: [] for name in FAULTS}
    for one in judge(open_stored(spark, str(tmp_path))).found:
        if one.check != "run" and one.anomaly in DELIVERY:
            found[one.run].append((one.anomaly, nowhere(one.partition), one.count))
    assert {name: sorted(rows) for name, rows in found.items()} == expected
