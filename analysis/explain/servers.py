"""The chains of invariants of brokers and controllers: the row that broke one, and its history.

A violation names the row that broke the invariant. Its chain is the history of the replica, broker
or controller of that row since its role last changed, or the earlier row that contradicts it.
"""

from __future__ import annotations

from kafkasim.analysis.explain.chain import Chain
from kafkasim.analysis.explain.facts import Facts, Key
from kafkasim.analysis.explain.loss import copies
from kafkasim.sim.trace.reading import Row

ROLES = ("BecameLeader", "BecameFollower")
LOG = ("Truncated", "LogLoaded", "LogStart", "LogDeleted", "ReplicaFailed")
HOST = ("HostStopped", "HostStarted", "DiskReplaced")

RECENT = 8
"""How many rows of a replica's history are told."""


def host_events(facts: Facts, node: str, before: int) -> list[Row]:
    """Return the stops and restarts of a host before a row; its first start is none."""

    def counts(row: Row) -> bool:
        return row["kind"] != "HostStarted" or bool(row["incarnation"])

    return facts.rows([*HOST], node=node, before=before, where=counts)


def history(facts: Facts, key: Key, node: str, row: Row) -> list[Row]:
    """Return what happened to a replica before a row: roles, truncations, starts; the latest."""
    seq = row["seq"]
    rows = facts.rows([*ROLES, *LOG], key, node=node, before=seq)
    rows += host_events(facts, node, seq)
    return sorted(rows, key=lambda each: int(each["seq"]))[-RECENT:]


def replica(facts: Facts, key: Key, row: Row) -> Chain:
    """Return the history of the replica of a row; the last change of its log is decisive."""
    chain = Chain()
    before = history(facts, key, row["node"], row)
    chain.add(*before, row)
    changes = [each for each in before if each["kind"] in (*LOG, *ROLES)]
    chain.turns(changes[-1] if changes else row, "")
    chain.add(facts.last(["PartitionChanged"], key, before=row["seq"]))
    return chain


def mismatch(facts: Facts, key: Key, row: Row) -> Chain:
    """Return how two replicas came to differ at a place where they must agree."""
    chain = Chain()
    offset = int(row["next_offset"]) - 1
    others = [copy for copy in copies(facts, key, offset) if copy.gained["seq"] < row["seq"]]
    for other in others[-2:]:
        chain.add(other.gained)
    chain.add(*history(facts, key, row["node"], row), row)
    node, begun = row["node"], facts.last(["PartitionChanged"], key, before=row["seq"])
    role = facts.last([*ROLES], key, node=node, before=row["seq"])
    since = -1 if role is None else int(role["seq"])
    chain.add(*facts.rows(["BecameLeader"], key, after=since, before=row["seq"])[-3:])
    if begun is not None and row["leader_epoch"] < begun["leader_epoch"]:
        chain.turns(
            row,
            f"{node} fetched in leader epoch {row['leader_epoch']} although leader epoch"
            f" {begun['leader_epoch']} had begun, so it has not compared its log with that of the"
            " new leader",
        )
        return chain
    cut = facts.last(["Truncated"], key, node=node, before=row["seq"], after=since)
    what = "without truncating" if cut is None else f"after truncating to {cut['offset']} only"
    chain.turns(
        cut or role,
        f"{node} went on {what}: below offset {row['base_offset']} its log differs from"
        " the leader's",
    )
    return chain


def high_watermark_back(facts: Facts, key: Key, row: Row) -> Chain:
    """Return the high watermarks before and after, and what the leader did in between."""
    chain = replica(facts, key, row)
    before = facts.rows(
        ["HighWatermark"], key, before=row["seq"], leader_epoch=row["leader_epoch"],
        node=row["node"],
    )  # fmt: skip
    highest = max(before, key=lambda each: int(each["high_watermark"]), default=None)
    chain.add(highest)
    if highest is not None:
        high = highest["high_watermark"]
        chain.turns(row, f"consumers could read up to {high - 1}, and the leader took that back")
    return chain


def too_few(facts: Facts, key: Key, row: Row) -> Chain:
    """Return the ISR and the settings when a high watermark advanced over too few replicas."""
    chain = Chain()
    chain.add(facts.last(["PartitionChanged"], key, before=row["seq"]))
    chain.add(facts.last(["BecameLeader"], key, node=row["node"], before=row["seq"]))
    topic = f"topic:{facts.topics.get(key[0], '')}"
    chain.add(
        facts.last(
            ["ConfigChanged"], before=row["seq"], resource=topic, config="min.insync.replicas"
        )
    )
    count = len(row["acknowledged"])
    chain.turns(row, f"records are committed with {count} of {row['min_isr']} required replicas")
    return chain


def twice(facts: Facts, key: Key, row: Row) -> Chain:
    """Return both appends of one batch, and why the second leader did not know the first."""
    chain = Chain()
    batch = {name: row[name] for name in ("producer_id", "producer_epoch", "base_sequence")}
    first = facts.first(["Appended"], key, before=row["seq"], **batch)
    chain.add(first, row)
    if first is not None:
        chain.add(*facts.rows(["Truncated", "LogLoaded"], key, node=row["node"],
                              after=first["seq"], before=row["seq"]))  # fmt: skip
        chain.add(facts.last(["BecameLeader"], key, node=row["node"], before=row["seq"]))
    chain.turns(row, f"{row['node']} no longer knew the sequence of the batch")
    return chain


def two_leaders(facts: Facts, key: Key, row: Row) -> Chain:
    """Return both leaders of one epoch, and what happened to the second before."""
    chain = Chain()
    if row["kind"] == "RaftRole":
        same = {"role": "leader", "epoch": row["epoch"]}
        chain.add(*facts.rows(["RaftRole"], before=row["seq"] + 1, **same))
        chain.add(*facts.rows(["RaftRole"], node=row["node"], before=row["seq"])[-4:])
    else:
        chain.add(*facts.rows(["BecameLeader"], key, leader_epoch=row["leader_epoch"]))
        chain.add(*facts.rows(["PartitionChanged"], key, before=row["seq"])[-2:])
    chain.add(*host_events(facts, row["node"], row["seq"])[-3:])
    chain.turns(row, f"{row['node']} is a second leader of the epoch")
    return chain


def metadata(facts: Facts, key: Key, row: Row) -> Chain:
    """Return what nodes applied, and who led the quorum or was the controller by then."""
    chain = Chain()
    seq = row["seq"]
    if row["kind"] == "MetadataCommitted":
        same = facts.rows(["MetadataCommitted"], before=seq + 1, offset=row["offset"])
        chain.add(*[each for each in same if each["digest"] != row["digest"]][-1:], row)
        chain.add(*facts.rows(["RaftRole"], before=seq, role="leader")[-3:])
        nodes = [each["node"] for each in chain.rows.values()]
        for node in dict.fromkeys(nodes):
            chain.add(*host_events(facts, node, seq)[-3:])
        led = [
            each
            for each in chain.rows.values()
            if each["kind"] == "RaftRole" and each["epoch"] <= row["epoch"]
        ]
        chain.turns(
            max(led, key=lambda each: int(each["seq"]), default=row),
            f"{row['node']} has a different metadata log from the others: two leaders wrote it",
        )
        return chain
    if row["kind"] in ("ZkControllerWrite", "ControlRequest"):
        chain.add(*facts.rows(["ZkControllerWrite"], before=seq, path="/controller_epoch")[-2:])
        chain.add(*facts.rows(["ControlRequest"], before=seq, node=row["node"])[-1:])
        chain.turns(row, "a controller of an earlier epoch still changes something")
        return chain
    chain.add(*facts.rows(["PartitionChanged"], key, before=seq)[-2:])
    chain.add(*facts.rows(["ControllerActive"], before=seq)[-2:])
    chain.turns(row, "the controller's change does not follow from the one before")
    return chain


def ineligible(facts: Facts, key: Key, row: Row) -> Chain:
    """Return the registrations of the ISR's members, and how they came into it."""
    chain = Chain()
    seq = row["seq"] + 1
    change = row
    if row["kind"] != "PartitionChanged":
        change = facts.last(["PartitionChanged"], key, before=seq) or row
    for broker in change.get("isr", ()):
        known = facts.last(["BrokerRegistration"], before=seq, broker=broker)
        if known is not None and (known["fenced"] or known["shutting_down"]):
            chain.add(known)
    chain.add(*facts.rows(["PartitionChanged"], key, before=seq)[-2:], row)
    chain.turns(row, "a broker that may not lead is in the ISR, and could be elected")
    return chain


def read_outside(facts: Facts, key: Key, row: Row) -> Chain:
    """Return how a replica left the ISR to which its leader sends consumers (READISR)."""
    chain = Chain()
    changes = facts.rows(["PartitionChanged"], key, before=row["seq"])
    known = [each for each in changes if each["partition_epoch"] <= row["partition_epoch"]]
    chain.add(*known[-2:], row)
    chain.turns(row, "the leader knows that the replica is not in the ISR")
    return chain


def needless_shrink(facts: Facts, key: Key, row: Row) -> Chain:
    """Return what a replica had fetched before its leader took it out of the ISR for lag."""
    chain = Chain()
    gone = row.get("replica_ids") or []
    for broker in gone:
        node = f"broker-{broker}"
        chain.add(*facts.rows(["Replicated"], key, node=node, before=row["seq"])[-2:])
        chain.add(facts.last([*ROLES], key, node=node, before=row["seq"]))
    chain.add(*facts.rows(["PartitionChanged"], key, before=row["seq"])[-2:])
    chain.turns(
        row, "a replica is removed that lacked nothing, or was behind only for a short time"
    )
    return chain


def needless_fencing(facts: Facts, _key: Key, row: Row) -> Chain:
    """Return the last heartbeats of a broker before its controller fenced it."""
    chain = Chain()
    broker = row.get("broker", -1)
    chain.add(*facts.rows(["BrokerHeartbeat"], broker=broker, before=row["seq"])[-2:])
    chain.add(*facts.rows(["BrokerRegistration"], broker=broker, before=row["seq"])[-2:])
    chain.add(facts.last(["ControllerActive"], before=row["seq"]))
    chain.turns(row, f"broker-{broker} is fenced before its session was over")
    return chain
