"""Print the state of a cluster as Kafka's own tools do.

``topics`` has the lines of kafka-topics.sh --describe, ``groups`` the columns of
kafka-consumer-groups.sh --describe (of groups of old consumers those of Kafka 0.10.0 with
--zookeeper), ``brokers`` those of kafka-cluster.sh list-endpoints with what else is known, ``acls``
those of kafka-acls.sh --list, ``reassignments`` those of kafka-reassign-partitions.sh --list,
``log-dirs`` the JSON of kafka-log-dirs.sh --describe, ``streams`` the tasks of applications of
Kafka Streams, which its instances know and no tool prints. The quorum is in
:mod:`kafkasim.analysis.figures.quorum`. What the trace does not tell is printed as —, in JSON as
null. HOST is the name of a simulated host.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafkasim.analysis.figures import tasks
from kafkasim.analysis.figures.state import ClusterState, GroupView, OldGroup
from kafkasim.sim.trace.reading import Row

UNKNOWN = "—"
INTERNAL = ("__consumer_offsets", "__transaction_state", "__cluster_metadata")


@dataclass(frozen=True)
class Selection:
    """Which topics and partitions to print; with a condition only partitions, as in Kafka."""

    topic: str | None = None
    exclude_internal: bool = False
    under_replicated: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    unavailable: bool = False

    @property
    def conditional(self) -> bool:
        """Whether only partitions in some state are asked for."""
        return self.under_replicated or self.under_min_isr or self.at_min_isr or self.unavailable


# --------------------------------------------------------------------------------------- topics


def topics(state: ClusterState, selection: Selection) -> list[str]:
    """Return the lines of kafka-topics.sh --describe."""
    lines = []
    for created in sorted(state.topics.values(), key=lambda row: str(row["topic"])):
        name = created["topic"]
        if selection.topic not in (None, name):
            continue
        if selection.exclude_internal and name in INTERNAL:
            continue
        if not selection.conditional:
            lines.append(
                f"Topic: {name}\tTopicId: {created['topic_id']}"
                f"\tPartitionCount: {created['partitions']}"
                f"\tReplicationFactor: {created['replication_factor']}"
                f"\tConfigs: {_configs(state, created)}"
            )
        for partition in range(created["partitions"]):
            row = state.partitions.get((created["topic_id"], partition))
            if row is not None and _selected(state, created, row, selection):
                lines.append(f"\t{_partition_line(name, row)}")
    return lines


def _partition_line(topic: str, row: Row) -> str:
    leader = "none" if row["leader"] == -1 else row["leader"]
    moving = ""
    if _reassigning(row):
        adding, removing = _ids(row["adding_replicas"]), _ids(row["removing_replicas"])
        moving = f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}"
    return (
        f"Topic: {topic}\tPartition: {row['partition']}\tLeader: {leader}"
        f"\tReplicas: {_ids(row['replicas'])}\tIsr: {_ids(row['isr'])}{moving}"
        f"\tElr: {_ids(row['elr'] or ())}\tLastKnownElr: {_ids(row['last_known_elr'] or ())}"
    )


def _reassigning(row: Row) -> bool:
    return bool(row["adding_replicas"] or row["removing_replicas"])


def _selected(state: ClusterState, created: Row, row: Row, selection: Selection) -> bool:
    if not selection.conditional:
        return True
    isr, minimum = len(row["isr"]), state.min_isr(created)
    factor = len(row["replicas"]) - len(row["adding_replicas"] or ())
    return (
        (selection.under_replicated and isr < factor)
        or (selection.under_min_isr and isr < minimum)
        or (selection.at_min_isr and isr == minimum)
        or (selection.unavailable and not state.alive(row["leader"]))
    )


def _configs(state: ClusterState, created: Row) -> str:
    """Return the topic's own properties."""
    own = state.configs.get(created["topic"])
    if own is not None:
        return ",".join(f"{key}={text}" for key, text in sorted(own.items()))
    spec = state.manifest.get("spec", {})
    for topic in spec.get("topics", []):
        if topic["name"] == created["topic"]:
            return ",".join(f"{k}={_plain(v)}" for k, v in sorted(topic["config"].items()))
    return f"min.insync.replicas={created['min_isr']}"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(str(replica) for replica in replicas)


# ------------------------------------------------------------------------------------------ acls


def acls(state: ClusterState) -> list[str]:
    """Return the lines of kafka-acls.sh --list: the entries of each resource."""
    resources: dict[tuple[str, str, str], list[Row]] = {}
    for row in state.acls.entries.values():
        key = (_constant(row["resource_type"]), str(row["name"]), _constant(row["pattern_type"]))
        resources.setdefault(key, []).append(row)
    lines = []
    for (kind, name, pattern), found in sorted(resources.items()):
        resource = f"ResourcePattern(resourceType={kind}, name={name}, patternType={pattern})"
        lines.append(f"Current ACLs for resource `{resource}`:")
        lines += [
            f"\t(principal={row['principal']}, host={row['host']},"
            f" operation={_constant(row['operation'])},"
            f" permissionType={_constant(row['permission'])})"
            for row in found
        ]
        lines.append("")
    return lines or ["There are no access control entries."]


def _constant(word: object) -> str:
    """Return a word of ours as Kafka's constant: transactional-id, TRANSACTIONAL_ID."""
    return str(word).upper().replace("-", "_")


# ---------------------------------------------------------------------- reassignments, log-dirs


def reassignments(state: ClusterState) -> list[str]:
    """Return the lines of kafka-reassign-partitions.sh --list."""
    lines = []
    for created in sorted(state.topics.values(), key=lambda row: str(row["topic"])):
        for partition in range(created["partitions"]):
            row = state.partitions.get((created["topic_id"], partition))
            if row is not None and _reassigning(row):
                lines.append(
                    f"{created['topic']}-{partition}: replicas: {_ids(row['replicas'])}."
                    f" adding: {_ids(row['adding_replicas'])}."
                    f" removing: {_ids(row['removing_replicas'])}."
                )
    if not lines:
        return ["No partition reassignments found."]
    return ["Current partition reassignments:", *lines]


LOG_DIR = "/var/lib/kafka/data"
"""The log directory of a simulated broker whose log.dirs is not set."""

STORAGE_ERROR = "org.apache.kafka.common.errors.KafkaStorageException"


def log_dirs(state: ClusterState, only: str | None = None) -> list[str]:
    """Return what kafka-log-dirs.sh --describe prints; the state must have followed the logs.

    offsetLag is how far a replica's log end is behind its leader's high watermark. A size is that
    of the log's segments in bytes, null if it is not known: the run was made by other code, or the
    broker is down. Of a directory that failed only the error is known.
    """
    brokers = []
    for broker in sorted(state.brokers):
        node = f"broker-{broker}"
        paths = _paths(state, node)
        entries: dict[str, list[dict[str, Any]]] = {path: [] for path in paths}
        placed, failed = state.placed.get(node, {}), state.offline_dirs.get(node, {})
        for (topic_id, number), row in sorted(state.partitions.items()):
            topic = state.topics[topic_id]["topic"]
            path = placed.get((topic_id, number), paths[0] if len(paths) == 1 else "")
            if broker in row["replicas"] and only in (None, topic) and path in entries:
                end = state.log_ends.get((node, (topic_id, number)), 0)
                leader = state.leaders.get((topic_id, number))
                lag = 0 if leader is None else max(0, leader.high_watermark - end)
                entries[path].append({
                    "partition": f"{topic}-{number}",
                    "size": state.log_sizes.get((node, (topic_id, number))),
                    "offsetLag": lag, "isFuture": False,
                })  # fmt: skip
        directories = []
        for path, found in entries.items():
            found.sort(key=lambda entry: str(entry["partition"]))
            error = STORAGE_ERROR if path in failed else None
            known = [] if path in failed else found
            directories.append({"logDir": path, "error": error, "partitions": known})
        brokers.append({"broker": broker, "logDirs": directories})
    return [
        "Querying brokers for log directories information",
        f"Received log directory information from brokers {_ids(sorted(state.brokers))}",
        json.dumps({"version": 1, "brokers": brokers}, separators=(",", ":")),
    ]


def _paths(state: ClusterState, node: str) -> list[str]:
    """Return the log.dirs of a node."""
    cluster = state.manifest.get("spec", {}).get("cluster", {})
    own = cluster.get("nodes", {}).get(node, {}).get("config", {})
    given = own.get("log.dirs", cluster.get("config", {}).get("log.dirs", []))
    paths = given.split(",") if isinstance(given, str) else given
    return [path.strip() for path in paths] or [LOG_DIR]


# --------------------------------------------------------------------------------------- groups

GROUP_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
                 "CONSUMER-ID", "HOST", "CLIENT-ID")  # fmt: skip


def groups(state: ClusterState, only: str | None = None) -> list[str]:
    """Return the tables of kafka-consumer-groups.sh --describe, a group after the other.

    LOG-END-OFFSET is what Kafka prints under that name: the high watermark. The groups of old
    consumers, which are in ZooKeeper, come last.
    """
    lines: list[str] = []
    for name, group in sorted(state.groups.items()):
        if only not in (None, name):
            continue
        if not group.member_ids:
            lines += ["", f"Consumer group '{name}' has no active members."]
        table = [GROUP_COLUMNS, *_group_rows(state, name, group)]
        lines += ["", *aligned(table)]
    for name, old in sorted(state.old_groups.groups.items()):
        if only in (None, name):
            lines += ["", *_old_group(state, name, old)]
    return lines


OLD_GROUP_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
                     "OWNER")  # fmt: skip


def _old_group(state: ClusterState, name: str, group: OldGroup) -> list[str]:
    """Return what ZkConsumerGroupService of Kafka 0.10.0 prints of a group in ZooKeeper.

    It has all partitions of the topics of which a partition had an owner.
    """
    lines = [] if group.topics else ["No topic available for consumer group provided"]
    table: list[tuple[str, ...]] = [OLD_GROUP_COLUMNS]
    names = {topic_id: created["topic"] for topic_id, created in state.topics.items()}
    partitions = [(names.get(key[0], ""), key) for key in state.partitions]
    for topic, key in sorted(each for each in partitions if each[0] in group.topics):
        number = key[1]
        current = group.offsets.get((topic, number))
        if current is None:
            lines.append(
                f"Could not fetch offset from zookeeper for group {name} partition"
                f" [{topic},{number}] due to missing offset data in zookeeper."
            )
        end = _high_watermark(state, topic, number)
        log_end = unread = UNKNOWN if end is None else str(end)
        if state.partitions[key]["leader"] < 0:
            log_end = unread = "unknown"
        elif current is None or current < 0:
            unread = "unknown"
        elif end is not None:
            unread = str(end - current)
        table.append((
            name, topic, str(number), "unknown" if current is None else str(current), log_end,
            unread, group.owners.get((topic, number), ("none", -1))[0],
        ))  # fmt: skip
    return [*lines, *aligned(table)]


def _group_rows(state: ClusterState, name: str, group: GroupView) -> list[tuple[str, ...]]:
    owners: dict[tuple[str, int], str] = {}
    for member in group.member_ids:
        for owned in group.assignments.get(member, []):
            topic, _, partition = owned.rpartition("-")
            owners[topic, int(partition)] = member
    rows: list[tuple[str, ...]] = []
    for key in sorted([*group.offsets, *(key for key in owners if key not in group.offsets)]):
        topic, number = key
        current = group.offsets.get(key)
        end = _high_watermark(state, topic, number)
        lag = UNKNOWN if end is None else "-" if current is None else str(end - current)
        owner = owners.get(key, "")
        node = state.member_nodes.get(owner, UNKNOWN)
        rows.append((
            name, topic, str(number), "-" if current is None else str(current),
            UNKNOWN if end is None else str(end), lag, owner or "-",
            f"/{node}" if owner else "-", _client_id(owner) if owner else "-",
        ))  # fmt: skip
    return rows


def streams(state: ClusterState, only: str | None = None) -> list[str]:
    """Return the tasks of each application: who processes, restores and stands by."""
    lines: list[str] = []
    for name, threads in sorted(state.applications.threads.items()):
        if only not in (None, name):
            continue
        group = state.groups.get(name, GroupView())
        lines += ["", f"Application {name}: group {group.state}, generation {group.generation}"]
        table = tasks.rows(threads, lambda log: _high_watermark(state, *log), UNKNOWN)
        lines += aligned([tasks.COLUMNS, *table])
    return lines or ["There are no applications of Kafka Streams."]


def _high_watermark(state: ClusterState, topic: str, partition: int) -> int | None:
    for topic_id, created in state.topics.items():
        if created["topic"] == topic:
            leader = state.leaders.get((topic_id, partition))
            return None if leader is None else leader.high_watermark
    return None


def _client_id(member_id: str) -> str:
    """Return the client id in front of a member id, which ends in a uuid or a number."""
    parts = member_id.split("-")
    for count, part in enumerate(parts):
        if count and len(part) >= 8 and len(parts) - count >= 5:
            return "-".join(parts[:count])
    return member_id.rpartition("-")[0] or member_id


# -------------------------------------------------------------------------------------- brokers

BROKER_COLUMNS = ("ID", "HOST", "RACK", "STATE", "EPOCH", "PROCESS", "LEADING", "REPLICAS")


def brokers(state: ClusterState) -> list[str]:
    """Return the registered brokers: what the controller thinks, and how the process really is."""
    table: list[tuple[str, ...]] = [BROKER_COLUMNS]
    for broker, row in sorted(state.brokers.items()):
        word = "unregistered" if row["change"] == "unregistered" else "unfenced"
        if row["fenced"]:
            word = "fenced"
        elif row["shutting_down"]:
            word = "controlled-shutdown"
        leading = sum(1 for p in state.partitions.values() if p["leader"] == broker)
        replicas = sum(1 for p in state.partitions.values() if broker in p["replicas"])
        node = f"broker-{broker}"
        table.append((
            str(broker), node, row["rack"] or "null", word, str(row["broker_epoch"]),
            state.processes.get(node, UNKNOWN), str(leading), str(replicas),
        ))  # fmt: skip
    return aligned(table)


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its columns as wide as their widest cell."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in table]
