"""The questions that fit a cluster: each is its scenario with one fault or operation.

The user's own faults, operations and expectations are left out. Beside each producer that is not
transactional there is another one with the other acks, so that one run answers for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkasim.scenarios.language.tables import Scenario

PAUSES_S = (5, 15, 30)
AWAY_S = 30
AT_S = 5
ENDS_S = 40
BESIDE = "20/s"
"""What a producer with the other acks sends."""

PERMITS = ["lost-write", "unseen", "duplicate", "reordered-key", "inconsistent-offsets",
           "poll-skip", "nonmonotonic-poll", "offset-regression"]  # fmt: skip
"""What records of acks=1 and readers of them may show: the question is whether they do."""

Data = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A question in words, and the scenario that answers it; ``name`` is that of its file."""

    name: str
    text: str
    data: Data


def questions(data: Mapping[str, Any], scenario: Scenario) -> Iterator[Question]:
    """Yield the questions that fit a scenario, whose tables are ``data``."""
    base = {key: data[key] for key in ("cluster", "topics") if key in data}
    base["workload"] = list(workloads(data))
    for name, text, cause in _causes(scenario):
        about = {"name": name, "claim": text, "duration": f"{ENDS_S}s"}
        yield Question(name, text, {**about, **base, **cause, "expect": {"permits": PERMITS}})


def workloads(data: Mapping[str, Any]) -> Iterator[Data]:
    """Yield the workloads, and each producer's twin with the other acks right behind it."""
    for table in data.get("workload", []):
        kept = {key: value for key, value in table.items() if key != "app-digest"}
        yield kept
        if table["kind"] != "producer" or "transactional-id" in table or "app" in table:
            continue
        config = dict(table.get("config", {}))
        other = "1" if acks(config) == "all" else "all"
        config |= {"acks": other, "enable.idempotence": other == "all"}
        yield {**kept, "rate": BESIDE, "count": 1, "config": config}


def acks(config: Mapping[str, Any]) -> str:
    """Return the acks of a producer's properties: all, 1 or 0."""
    given = str(config.get("acks", "all"))
    return "all" if given == "-1" else given


def acks_of_hosts(scenario: Scenario) -> dict[str, str]:
    """Return the acks of each producer host of a scenario."""
    hosts: dict[str, str] = {}
    for table in scenario.workload:
        if table.kind == "producer":
            for _ in range(table.count):
                hosts[f"producer-{len(hosts) + 1}"] = acks(table.config)
    return hosts


def _causes(scenario: Scenario) -> Iterator[tuple[str, str, Data]]:
    cluster = scenario.cluster
    brokers = [f"broker-{n}" for n in range(1, cluster.brokers + 1)]
    for broker in brokers:
        for seconds in PAUSES_S:
            fault = {"kind": "gc-pause", "node": broker, "for": f"{seconds}s"}
            yield f"pause-{broker}-{seconds}s", f"{broker} pauses {seconds} s", _fault(fault)
    for broker in brokers:
        fault = {"kind": "crash", "node": broker, "for": f"{AWAY_S}s"}
        yield f"crash-{broker}", f"{broker} crashes, back after {AWAY_S} s", _fault(fault)
    for rack in dict.fromkeys(racks(scenario)):
        fault = {"kind": "rack-loss", "rack": rack, "how": "power-loss", "for": f"{AWAY_S}s"}
        told = f"rack {rack} loses power for {AWAY_S} s"
        yield f"lose-rack-{number_of(rack, scenario)}", told, _fault(fault)
    fault = {"kind": "crash", "node": "active-controller", "for": f"{AWAY_S}s"}
    told = f"the active controller crashes, back after {AWAY_S} s"
    yield "crash-controller", told, _fault(fault)
    operation = {"kind": "rolling-restart", "at": f"{AT_S}s"}
    yield "rolling-restart", "a rolling restart", {"operations": [operation]}
    fault = {"kind": "disk-full", "node": "broker-1"}
    yield "fill-disk-broker-1", "broker-1's disk is full", _fault(fault)


def racks(scenario: Scenario) -> list[str]:
    """Return the racks of the brokers, in their order; a broker without rack is left out."""
    cluster = scenario.cluster
    around = cluster.racks or [""]
    found = []
    for number in range(cluster.brokers):
        own = cluster.nodes.get(f"broker-{number + 1}")
        rack = own.rack if own is not None and own.rack else around[number % len(around)]
        found += [rack] if rack else []
    return found


def number_of(rack: str, scenario: Scenario) -> int:
    """Return the number of a rack, from 1: its name may not do for the name of a file."""
    return list(dict.fromkeys(racks(scenario))).index(rack) + 1


def _fault(fault: Mapping[str, Any]) -> Data:
    return {"faults": [{**fault, "at": f"{AT_S}s"}]}
