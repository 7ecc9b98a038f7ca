"""The quorum of the metadata log as kafka-metadata-quorum.sh describe prints it.

``status`` has the lines of --status, ``replication`` the columns of --replication. The trace has
what each replica has applied, not what it has fetched: an end offset is the end of that, a lag is
what it lacks of what the leader has applied, and when it last fetched is printed as —. Timestamps
are milliseconds of the trace's clock. A voter of the static configuration has no directory id, nor
has a broker here; endpoints have the port of Kafka's own server.properties.
"""

from __future__ import annotations

import base64
import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from kafkasim.analysis.figures.describe import UNKNOWN
from kafkasim.analysis.figures.state import ClusterState

REPLICATION_COLUMNS = (
    "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp",
    "Status",
)  # fmt: skip
CONTROLLER_PORT = 9093
ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The directory id of a replica that has none, as Uuid.ZERO_UUID prints."""


class Quorum:
    """Who votes, who follows, and how far each of them is."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        spec = state.manifest.get("spec", {}).get("cluster", {})
        voters = spec.get("controllers") or 0
        self.hosts = state.controllers or _controllers_of(state)
        leading = [row for row in state.raft.values() if row["role"] == "leader"]
        leader = max(leading, key=lambda row: int(row["epoch"])) if leading else None
        self.leader = -1 if leader is None else int(leader["leader"])
        self.leader_host = "" if leader is None else str(leader["node"])
        self.epoch = max((int(row["epoch"]) for row in state.raft.values()), default=0)
        self.tells_no_directory = spec.get("kafka-version", "4.0") != "4.1"
        first = list(self.hosts)[: voters or None]
        self.voters = sorted(state.voters.get(self.leader_host, first))
        running = [n for n in self.hosts if state.processes.get(self.hosts[n]) == "running"]
        brokers = [n for n, row in state.brokers.items() if row["change"] != "unregistered"]
        followers = [*brokers, *running]
        self.observers = sorted({node: None for node in followers if node not in self.voters})

    def endpoint(self, node: int) -> str:
        """Return a voter's endpoint as its server.properties would name it, "" of an observer."""
        if node not in self.voters:
            return ""
        number = list(self.hosts).index(node) + 1 if node in self.hosts else node
        return f"CONTROLLER://controller-{number}:{CONTROLLER_PORT}"

    def host(self, node: int) -> str:
        """Return the host of a voter or observer."""
        return self.hosts.get(node, f"broker-{node}")

    def applied(self, node: int) -> int | None:
        """Return the last offset that a replica has applied, None if the trace does not tell."""
        row = self.state.applied.get(self.host(node))
        return None if row is None else int(row["offset"])

    def lag(self, node: int) -> int | None:
        """Return how many offsets a replica is behind the leader."""
        leading, own = self.state.applied.get(self.leader_host), self.applied(node)
        if leading is None or own is None:
            return None
        return 0 if node == self.leader else max(0, int(leading["offset"]) - own)

    def caught_up_us(self, node: int) -> int | None:
        """Return when a replica was caught up last: when its first missing offset was committed."""
        lag = self.lag(node)
        if lag is None:
            return None
        if lag == 0:
            return self.state.at_us
        own = self.applied(node)
        missed = bisect_right(self.state.commits, (-1 if own is None else own, 1 << 62))
        return self.state.commits[missed][1]


def status(state: ClusterState) -> list[str]:
    """Return the lines of kafka-metadata-quorum.sh describe --status.

    In ZooKeeper mode: who /controller names, and what zkServer.sh status says of each server.
    """
    if state.ensemble:
        epoch, node = state.active
        lines = {"ControllerId": node.rpartition("-")[2] or -1, "ControllerEpoch": epoch}
        lines |= {name: f"Mode: {row['role']}" for name, row in sorted(state.ensemble.items())}
        return _lines(lines)
    quorum = Quorum(state)
    committed = [int(row["offset"]) for row in state.applied.values()]
    lag, lag_ms = _slowest(quorum)
    return _lines(
        {
            "ClusterId": _cluster_id(state),
            "LeaderId": quorum.leader,
            "LeaderEpoch": quorum.epoch,
            "HighWatermark": max(committed) + 1 if committed else UNKNOWN,
            "MaxFollowerLag": lag,
            "MaxFollowerLagTimeMs": lag_ms,
            "CurrentVoters": _replicas(quorum, quorum.voters),
            "CurrentObservers": _replicas(quorum, quorum.observers),
        }
    )


def replication(state: ClusterState) -> list[str]:
    """Return the lines of kafka-metadata-quorum.sh describe --replication, the leader's first."""
    quorum = Quorum(state)
    followers = [node for node in quorum.voters if node != quorum.leader]
    rows = [(quorum.leader, "Leader")] if quorum.leader >= 0 else []
    rows += [(node, "Follower") for node in followers]
    rows += [(node, "Observer") for node in quorum.observers]
    table: list[tuple[str, ...]] = [REPLICATION_COLUMNS]
    for node, word in rows:
        applied, lag, caught_up = quorum.applied(node), quorum.lag(node), quorum.caught_up_us(node)
        table.append((
            str(node),
            state.directories.get(node, ZERO_UUID),
            UNKNOWN if applied is None else str(applied + 1),
            UNKNOWN if lag is None else str(lag),
            UNKNOWN,
            UNKNOWN if caught_up is None else str(caught_up // 1000),
            word,
        ))  # fmt: skip
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [  # ToolsUtils.prettyPrintTable ends each cell with a tab
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths)) for row in table
    ]


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{f'{name}:':<24}{value}" for name, value in values.items()]


def _replicas(quorum: Quorum, nodes: Iterable[int]) -> str:
    """Return replicas as MetadataQuorumCommand.printReplicaState does.

    The command of 4.1 leaves a missing directory id out, that of 4.0 says null.
    """
    told = []
    for node in nodes:
        directory_id = quorum.state.directories.get(node)
        fields = [f'"id": {node}']
        if directory_id or quorum.tells_no_directory:
            fields.append(f'"directoryId": {json.dumps(directory_id)}')
        if endpoint := quorum.endpoint(node):
            fields.append(f'"endpoints": ["{endpoint}"]')
        told.append("{" + ", ".join(fields) + "}")
    return f"[{', '.join(told)}]"


def _controllers_of(state: ClusterState) -> dict[int, str]:
    """Return the controllers of a run whose manifest does not name them."""
    names = sorted(node for node in state.applied if node.startswith("controller-"))
    return {3000 + int(name.rpartition("-")[2]): name for name in names}


def _cluster_id(state: ClusterState) -> str:
    """Return an id as Kafka prints it, the same for every run of a scenario's seed."""
    text = f"{state.manifest.get('scenario')}/{state.manifest.get('seed')}"
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).decode()[:22]


def _slowest(quorum: Quorum) -> tuple[str, str]:
    """Return how far the slowest voter is behind the leader, and since when."""
    lags = {node: lag for node in quorum.voters if (lag := quorum.lag(node)) is not None}
    if not lags:
        return UNKNOWN, UNKNOWN
    slowest = max(lags, key=lambda node: lags[node])
    if lags[slowest] == 0:
        return "0", "0"
    since = quorum.caught_up_us(slowest)
    assert since is not None, slowest
    return str(lags[slowest]), str((quorum.state.at_us - since) // 1000)
