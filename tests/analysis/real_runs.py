"""Runs of the simulator whose own judgement is compared with that of the checks.

They lie in one fleet with the hand-written cases (conftest.py): Spark plans each check once.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.invariants.online import INVARIANTS
from kafkasim.analysis.judging.verdict import Result
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run

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


OF_TRANSACTIONS = (
    "aborted-read", "precommitted-read", "torn-transaction", "hanging-transaction",
    "zombie-producer", "needless-epoch", "lost-output", "duplicate-output",
)  # fmt: skip

EPOCHS = "B52-epoch-raised-by-failed-fence"


def in_time() -> dict[str, Any]:
    """Return the script of B52 with a coordinator that can write its log again in time."""
    data = library.source(EPOCHS)[0]
    paused, away = data["faults"]
    return data | {
        "duration": "14s",
        "expect": {},
        "faults": [paused | {"for": "9s"}, away | {"for": "6s"}],
    }


SCRIPTS = {
    "exactly-once": (),
    "at-least-once": (),
    "at-most-once": (),
    "B46-hanging-txn-late-produce": ("B46-hanging-txn-late-produce",),
    "B48-txn-timeout-no-epoch-bump": ("B48-txn-timeout-no-epoch-bump",),
    EPOCHS: (EPOCHS,),
    "B61-zombie-offsets-in-txn": ("B61-zombie-offsets-in-txn",),
}
"""Scenarios of transactions, each with the variants under which it runs."""

OF_READERS = ("needless-reset", "reordered-commit", "EXCL")

READERS = {
    "B63-async-commit-retried": ("B63-async-commit-retried",),
    "rack-local-reads": ("B03-epoch-reply-without-epoch",),
    "B85-old-consumer-reads-on": ("B85-old-consumer-reads-on",),
    "zk-consumer-zombie": ("M60-keeps-lost-partitions",),
}
"""Scenarios whose variants break what holds for commits, positions and old consumers."""

OF_SHARES = ("accepted-again", "held-twice", "over-delivered", "share-skipped")

SHARES = {
    "share-reject": (),
    "share-leader-failover": ("M80-share-answers-early",),
    "share-poison-record": ("M81-share-delivers-once-more",),
    "B90-share-gaps-not-fetched": ("B90-share-gaps-not-fetched",),
    "B91-share-acquired-in-transition": ("B91-share-acquired-in-transition",),
    "B92-share-start-moves-back": ("B92-share-start-moves-back",),
}
"""Scenarios of share groups, each with the variants under which it runs."""


Found = dict[str, list[tuple[str, int, int]]]
"""The anomalies of each run: name, partition, count."""


AS_WRITTEN = (
    "at-most-once", "B46-hanging-txn-late-produce", "B90-share-gaps-not-fetched",
    "B91-share-acquired-in-transition", "B92-share-start-moves-back",
)  # fmt: skip
"""The scripts that show nothing at a third of their rate."""


def thinned(name: str) -> dict[str, Any]:
    """Return a script at a third of its rate, if it shows the same then.

    Spark executes the checks of the fleet in four fifths of the time.
    """
    data = in_time() if name == EPOCHS else library.source(name)[0]
    if name in AS_WRITTEN:
        return data
    third = [
        each | {"rate": f"{round(float(each['rate'].removesuffix('/s')) / 3)}/s"}
        if "rate" in each
        else each
        for each in data["workload"]
    ]
    return data | {"workload": third}


def others(result: Result) -> list[Finding]:
    """Return what a run found beside broken invariants."""
    return [each for each in result.findings if each.name not in INVARIANTS]


def simulate(place: Path) -> Found:
    """Leave a directory for each run; return what the runs found of themselves."""
    by_run: Found = {}
    for name in FAULTS:
        result = run(parse(scenario(name), name), 1, place / name)
        by_run[name] = sorted((a.name, a.partition, a.count) for a in others(result))
    for name, variants in (SCRIPTS | READERS | SHARES).items():
        result = run(parse(thinned(name), name), 1, place / name, variants)
        found = [(a.name, a.partition, a.count) for a in others(result)]
        broken = Counter(
            (each.name, each.partition) for each in result.findings if each.name in INVARIANTS
        )
        found += [(*each, count) for each, count in broken.items()]
        by_run[name] = sorted(each for each in found if each[0] in judged_in(name))
    return by_run


def judged_in(name: str) -> tuple[str, ...]:
    """Return the anomalies that are compared in a run."""
    kinds = ((SCRIPTS, OF_TRANSACTIONS), (READERS, OF_READERS), (SHARES, OF_SHARES))
    return next((judged for names, judged in kinds if name in names), DELIVERY)
