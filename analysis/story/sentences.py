"""What each kind of fact says: one sentence, in Kafka's words, and its rule in model/KAFKA.md.

The story of a run and the explanation of an anomaly choose facts; both say them with this module. A
sentence is a template over the fields of a row and the words of :func:`words`. A fact that says
more together with earlier ones (a change of the ISR, a truncation) is said by a method of
:class:`Teller`, which follows the rows of a run in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafkasim.analysis.story import faults, reasons
from kafkasim.model.facts import FACTS
from kafkasim.model.facts.names import broker_of, node_of, record
from kafkasim.sim.trace.reading import Row

LIMITS_OF_ADDRESSES = ("max.connections.per.ip", "connection_creation_rate")
"""Limits of connections that concern one IP address."""

PLACE, DETAIL = "\0", "\1"
"""In a sentence: the partition (or who sent) and a detail; a line of the story has several."""

SHOWN = 4
"""How many records, keys or offsets a sentence names."""


class Sentence(NamedTuple):
    """A sentence with PLACE and DETAIL, and what they stand for in this row."""

    text: str
    place: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return self.text.replace(PLACE, self.place).replace(DETAIL, self.detail)


# --------------------------------------------------------------------------------------- templates

Template = str | Callable[[Row], str]

SAID: dict[str, tuple[str, Template]] = {
    # The run and its hosts.
    "HostStarted": ("", lambda row: "{node} starts" + " again" * (row["incarnation"] > 0)),
    "HostStopped": ("", lambda row: "{node} {why}" + ": {detail}" * bool(row["detail"])),
    "HostPaused": ("", "{node} is paused for {lasts}"),
    "HostResumed": ("", "{node} resumes"),
    "DiskFilled": ("", lambda row: "the disk of {node} is full"
        + " ({directory})" * bool(row["directory"]) + ": disk-capacity is {capacity}"),
    "DiskReplaced": ("", "{node} gets an empty disk"),
    "RuleActed": ("", lambda row: "the variant first differs from Kafka"
        + " on {node}" * (row["node"] != "world") + ": {rule}"),
    "Operated": ("", lambda row: "operator: {operation} {target}: "
        + ("done" if row["error"] == "NONE" else "{error}") + " ({reason})" * bool(row["reason"])),
    "ConfigChanged": ("6", lambda row: "{config} "
        + ("is removed" if row["value"] is None else "is set to {value}") + " for {resource}"),
    "AclChanged": ("1.10", lambda row:
        "the entry {permission} {principal} {operation} on {resource_type} {name}"
        + "*" * (row["pattern_type"] == "prefixed")
        + (" joins" if row["added"] else " leaves") + " the access control lists"),
    "Authorized": ("1.10", lambda row: "{node} "
        + ("allows" if row["allowed"] else "denies") + " {principal} to {operation} {resource_type}"
        + " {name}" * bool(row["name"]) + ": "
        + ("by {rule}" if row["rule"] else "no entry of its metadata up to offset {offset} says so")
        ),
    "ApplicationFailed": ("", lambda row: "the application of {node} ({task}) raised {exception}"
        + ": {reason}" * bool(row["reason"]) + ", at {frame}" * bool(row["traceback"])
        + "; the process ends, and what it left open is cut" * bool(row["ended"])),
    "RestartBackOff": ("", "the restart policy of {node} starts its process again in {lasts}"),
    # Logs.
    "Appended": ("1.7", ("{node}, leader of {place} in leader epoch {leader_epoch}, appends"
        " {record_ids} at {range}")),
    "Replicated": ("1.4", "{node} fetches {range} of {place} in leader epoch {leader_epoch}"),
    "HighWatermark": ("1.5", ("{node} advances the high watermark of {place} to {high_watermark} in"
        " leader epoch {leader_epoch}: replicas {acknowledged} are known to have the records,"
        " min.insync.replicas is {min_isr}")),
    "PreferredReadReplica": ("1.8", ("{node} sends consumers of {place} to replica {replica}, by"
        " the ISR of partition epoch {partition_epoch}")),
    "LogLoaded": ("5", lambda row: "{node} "
        + ("loads its log of {place}" if row["clean"] else
           "recovers its log of {place} after an unclean stop") + DETAIL),
    "LogStart": ("5", lambda row: "{node} deletes old segments of {place}" + DETAIL
        + ", by {config}" if row["config"] else
        "{node} moves the log start of {place} to {offset} ({reason})"),
    "LogDeleted": ("5", "{node} drops its log of {place}, which ended at {log_end_offset}"),
    "LogDirOffline": ("5", "{node} takes log directory {directory} offline: {reason}"),
    "ReadReplica": ("1.8", lambda row: "{node} of group {group} fetches {place} from "
        + ("broker-{replica}, the replica that the leader prefers for its rack"
           if row["replica"] >= 0 else "the leader again")),
    "ProducerIdExpired": ("4.2", ("the replicas of {place} forget producer id {producer_id}:"
        " nothing came of it for producer.id.expiration.ms")),
    "ReplicaFailed": ("1.4", "{node} stops fetching {place}: {reason}"),
    "KeysAppended": ("1.7", "{node} appends to {place}: {named}"),
    "Cleaned": ("5", ("{node} cleans {place}: {gone} from offset {base_offset} to {next_offset} are"
        " removed")),
    "CleaningFailed": ("5", "{node} gives up the cleaning of {place}: {reason}"),
    "FinalReplica": ("", lambda row: "at the end {node}, "
        + ("leader" if row["leading"] else "follower") + " of {place} in leader epoch"
        " {leader_epoch}, has offsets {log_start_offset} to {log_end_offset}, high watermark"
        " {high_watermark}"),
    # Leaders, ISRs, controllers.
    "BecameLeader": ("1.3", ("{node} begins to lead {place} in leader epoch {leader_epoch}; its log"
        " ends at {start_offset}, the ISR is {isr}")),
    "BecameFollower": ("1.3", lambda row: "{node} begins to follow "
        + ("broker-{leader}" if row["leader"] >= 0 else "nobody")
        + " in {place}, leader epoch {leader_epoch}; its log ends at {log_end_offset}"),
    "IsrProposed": ("1.5", lambda row: "{node} proposes an ISR of {place} "
        + ("without" if row["change"] == "shrink" else "with") + " {replica_ids}"),
    "IsrChanged": ("1.6", ("{node} learns that its {change} of the ISR of {place} by {replica_ids}"
        " succeeded: {isr}")),
    "BrokerHeartbeat": ("2.3", lambda row: "{node} receives a heartbeat from broker-{broker}"
        + " and asks to be fenced" * row["want_fence"]),
    "SessionEnded": ("2.3", "for {node} the session of broker-{broker} has ended"),
    "BrokerState": ("2.3", "{node} is {state}"),
    "ControllerActive": ("2.3", lambda row: "{node} "
        + ("becomes the active" if row["active"] else "resigns as")
        + " controller (epoch {epoch})" + ": {reason}" * bool(row["reason"])),
    "ConnectionLimited": ("1.9", lambda row: (
        "{node} closes new connections from {host} from now on: {limit}"
        if row["limit"] in LIMITS_OF_ADDRESSES else
        "the acceptor of {node} lets new connections wait, the first one from {host}: {limit}")),
    "CreationRefused": ("", ("{node} cannot have {topic} created, which {topic_use}: {error}"
        " ({reason})")),
    "TopicDeleted": ("", "topic {topic} is deleted"),
    "RaftRole": ("2.2", lambda row: "{node} is {role} of the metadata quorum in epoch {epoch}"
        + ", leader {leader}" * (row["leader"] >= 0)),
    "MetadataCommitted": ("2.2", ("{node} applies the metadata log up to offset {offset} of epoch"
        " {epoch} (digest {short})")),
    "VotersChanged": ("2.2", "for {node} the voters of the metadata quorum are now {voters}"),
    "ZkControllerWrite": ("2.1", ("{node}, controller of epoch {controller_epoch}, writes {path} at"
        " zxid {offset}")),
    "ControlRequest": ("2.1", lambda row: "{node} "
        + ("executes" if row["error"] == "NONE" else "refuses") + " {api} from controller"
        " broker-{controller} of epoch {controller_epoch}"
        + ": {error}" * (row["error"] != "NONE")),
    "ZooKeeperSession": ("2.1", "ZooKeeper: the session of {client} is {event}"),
    "ZooKeeperConnection": ("2.1", lambda row: "{node}: session {session_id} is {state}"
        + " at {server}" * bool(row["server"])),
    # Producers.
    "KeySent": ("4.1", "the application at {node} sends {record} with the key {key}"),
    "OutputSent": ("", ("the application of {node} sends {record} to {output} while it handles"
        " offset {offset} of {place}")),
    "Acked": ("1.7", lambda row: "{node} counts {record_ids} as written to {place}"
        + " at offset {base_offset}" * (row["base_offset"] >= 0) + ": acks={acks}"
        + " after {attempts} attempts" * (row["attempts"] > 1)),
    "SequencesRewritten": ("4.2", ("{node} has a gap in {place}, and numbers its in-flight batches"
        " from 0 in epoch {producer_epoch}")),
    # Groups and consumers.
    "CoordinatorLoaded": ("3.1", "{node} {loads} group coordinator for " + PLACE + DETAIL),
    "CoordinatorLoadFailed": ("3.4", ("{node} cannot load {place}, which has no coordinator now: at"
        " offset {offset} {reason}")),
    "GroupConverted": ("3.4", "group {group} becomes a {protocol} group, with its members"),
    "GroupAssigned": ("3.1", ("{node} gives {member} {assignment} in generation {generation} of"
        " group {group}")),
    "OffsetCommitted": ("3.1", lambda row:
        "{node} writes offset {offset} of {place} of group {group} to ZooKeeper"
        if row["coordinator_epoch"] < 0 else
        "{node} acknowledges the commit of {place} at {offset} by {member}, generation {generation}"
        " of group {group}"),
    "OffsetFetched": ("3.1", lambda row: "{node} answers that group {group} has committed "
        + ("{offset}" if row["offset"] >= 0 else "nothing") + " for {place}"),
    "Positioned": ("3.2", lambda row: "{node} gives {place} up" if row["reason"] == "none" else
        "{node} will read {place} from offset {offset}: {why}"),
    "Polled": ("3.2", "{node} of group {group} polls {polled} of {place}"),
    "Processed": ("", "the application of {node} has processed {range} of {place}"),
    "FinalResults": ("", "at the end {node} has stored {results} of {place}"),
    "ConsumerAssigned": ("3.2", "{node} now owns {assignment}, generation {generation}"),
    "ConsumerRevoked": ("3.2", lambda row: "{node} " + ("has lost" if row["lost"] else "gives back")
        + " {assignment}, generation {generation}"),
    "OffsetExpired": ("3.1", lambda row: "the coordinator removes the committed offset" + DETAIL
        + " of group {group} in {place}: " + reasons.OFFSET_EXPIRED.get(row["reason"], "{reason}")),
    "CommitChosen": ("3.2", ("the application of {node} asks to commit {place} at {offset}, below"
        " where it stands")),
    "CommitResult": ("3.2", lambda row: "the commit of {place}" + DETAIL + " by {node} "
        + ("succeeds" if row["error"] == "NONE" else "fails: {commit_error}")),
    "PartitionOwner": ("3.5", lambda row: {
        "conflict": "{node} finds that {owner} owns {place} of group {group}",
        "claimed": "{node} claims {place} of group {group}",
    }.get(row["event"], "{node} deletes the owner's znode of {place} of group {group}")),
    "RebalanceAttempt": ("3.5", lambda row: reasons.ATTEMPTS.get(
        row["outcome"], "{node} fails to rebalance in group {group}: {reason}")
        + " (attempt {attempt})" * (row["attempt"] > 1 and row["outcome"] != "gave-up")),
    # Transactions.
    "TransactionBegun": ("4.4", "{node} begins {transaction} ({producer})"),
    "TransactionSent": ("4.4", "{node} sends {record} to {place} in {transaction}"),
    "TransactionOffsets": ("4.4", ("{node} takes offset {offset} of group {group} in {place} into"
        " {transaction}")),
    "TransactionEnding": ("4.4", lambda row: "the application of {node} asks to "
        + ("commit" if row["committing"] else "abort") + " {transaction}"),
    "TransactionEnded": ("4.4", lambda row:
        "{node} is fenced in {transaction}: the transactional id has a newer epoch"
        if row["outcome"] == "fenced" else "{node} is told of {transaction}: {why}"),
    "TransactionsLoaded": ("4.4", "{node} {loads} transaction coordinator for " + PLACE + DETAIL),
    "ReadsCommitted": ("4.4", "{node} reads committed records only, for group {group}"),
    "ProcessorStarted": ("", ("{node} processes {topics} into {topic} as group {group}:"
        " {guarantee}")),
    "TransactionState": ("4.4", lambda row: "{node} aborts the transaction of {transactional_id}"
        " ({producer}): {why}" if is_abort(row) else
        "{node} forgets the transactional id {transactional_id} ({producer}): {why}"
        if row["reason"] == "expired" else
        "{node}, coordinator of {transactional_id}: {before} becomes {state} ({producer}): {why}"),
    "BatchUnverified": ("4.4", ("{node}, leader of {place}, does not know that {producer}, has a"
        " transaction there, and refuses sequence {base_sequence} ({error})")),
    "VerificationSkipped": ("4.4", ("{node}, leader of {place}, appends a batch of {producer},"
        " without verifying its transaction (before KIP-890)")),
    "MarkerGivenUp": ("4.4", ("{node}, coordinator of {transactional_id}, gives up the marker for"
        " {place} ({error}: {producer}); the transaction is never complete")),
    "EpochsExhausted": ("4.4", ("{node}, coordinator of {transactional_id}, cannot end its"
        " transaction ({producer}): the next epoch overflows")),
    "MarkerSkipped": ("4.4", ("{node}, coordinator of {transactional_id}, knows no leader of"
        " {place} and sends no marker there ({producer})")),
    "MarkerWritten": ("4.4", lambda row: "{node}, leader of {place}, writes the "
        + ("COMMIT" if row["committed"] else "ABORT") + " marker of {producer} at offset {offset}"),
    # Share groups.
    "SharePartitionLoaded": ("3.6", ("{node} has read the state of {share} in leader epoch"
        " {leader_epoch}: state epoch {state_epoch}, it begins at offset {start_offset}")),
    "SharePartitionClosed": ("3.6", "{node} forgets {share}: {why}"),
    "ShareAcquired": ("3.6", ("{node} gives {share_range} of {share} to member {member_id},"
        " delivery {delivery_count}, locked for {lock} ms")),
    "ShareMoved": ("3.6", ("{node} has {share_range} of {share} as {state}, delivered"
        " {delivery_count} times, held by member {member_id}: {why}")),
    "ShareStartMoved": ("3.6", ("{node} moves the start of {share} to offset {start_offset}:"
        " {why}")),
    "ShareStartFailed": ("3.6", ("{node} has written the state of {share}, but has no state for its"
        " start offset {start_offset}: the start stays, and no request is answered")),
    "SharePolled": ("3.6", "{node} gets the records at {named} of {share} from poll()"),
    "ShareAcknowledged": ("3.6", lambda row: "{node} hears that in {share} {named} "
        + ("is done" if row["error"] == "NONE" else "failed with {error}")),
    "ShareGroupState": ("3.6", lambda row: "{node} has share group {group} {state} at epoch"
        " {generation} with {member_ids}" + " ({reason})" * bool(row["reason"])),
    "ShareGroupAssigned": ("3.6", ("{node} assigns {assignment} to member {member_id} of share"
        " group {group} at member epoch {generation}")),
    "ShareStatesLoaded": ("3.6", "{node} {loads} share coordinator for " + PLACE + DETAIL),
    "ShareStateInitialized": ("3.6", lambda row: "{node} begins the state of {share} anew "
        + ("without a start offset" if row["start_offset"] == -1 else "at offset {start_offset}")
        + ", state epoch {state_epoch}"),
    "FinalSharePartition": ("3.6", ("at the end {node} has {share} from offset {start_offset} to"
        " {end_offset} in leader epoch {leader_epoch}")),
    # Kafka Streams.
    "StreamThreadState": ("", lambda row: "stream thread {thread} of {node} is {state}"
        + ": {reason}" * bool(row["reason"])),
    "TaskState": ("", lambda row: reasons.TASK_STATES.get((row["role"], row["state"]),
        "the {role} task {place} of {group} on {node} is {state}") + ": {reason}"
        * (row["state"] in ("SUSPENDED", "CLOSED"))),
    "TaskCommitted": ("", "{node} has committed what task {place} of {group} read: {listed}"),
    "RestoreBegan": ("", lambda row: "{node} " + ("restores" if row["role"] == "active" else
        "follows") + " {place}" + DETAIL),
    "Restored": ("", "{node} has read {records} records of {place}, to offset {offset}"),
    "Checkpointed": ("", "{node} writes the checkpoint of task {place} of {group}: {listed}"),
    "StateWiped": ("", "{node} deletes its state of task {place} of {group}: {reason}"),
}  # fmt: skip
"""A kind of fact to its section of KAFKA.md and its template."""

OF_TASKS = ("TaskState", "TaskCommitted", "Checkpointed", "StateWiped")
"""Kinds whose place is a task of Kafka Streams."""

METHODS = {
    "Phase": "", "FaultStarted": "", "FaultEnded": "", "Truncated": "1.4", "IsrUpdateFailed": "1.6",
    "PartitionChanged": "1.8", "BrokerRegistration": "2.3", "GroupState": "3.1",
    "SendFailed": "4.1", "InstanceIdHeld": "3.1",
}  # fmt: skip
"""Kinds that a method of Teller says, to their sections."""

COORDINATED = {
    "CoordinatorLoaded": "__consumer_offsets", "TransactionsLoaded": "__transaction_state",
    "ShareStatesLoaded": "__share_group_state",
}  # fmt: skip


def is_abort(row: Row) -> bool:
    """Return whether a TransactionState is an abort against the producer's will."""
    return row["state"] == "PrepareAbort" and row["reason"] in ("timeout", "fence")


def rule(row: Row, zookeeper: bool) -> str:
    """Return the section of KAFKA.md with the rule behind a row, "" for none."""
    kind = row["kind"]
    if kind in ("BrokerRegistration", "ControllerActive") and zookeeper:
        return "2.1"
    if kind == "OffsetCommitted" and row["coordinator_epoch"] < 0:
        return "3.5"
    if kind == "PartitionChanged" and row["reason"] in ("lag", "caught-up"):
        return "1.5"
    return SAID[kind][0] if kind in SAID else METHODS.get(kind, "")


# ------------------------------------------------------------------------------------------- words


def cut(parts: Sequence[str]) -> str:
    """Return the first of some parts, and how many there are more."""
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ", ".join(parts[:SHOWN]) + more


def span(first: int, last: int) -> str:
    """Return a range of offsets, both ends included."""
    return f"offset {first}" if last <= first else f"offsets {first} to {last}"


def ids(brokers: Iterable[int]) -> str:
    """Return broker ids as Kafka's tools print them."""
    return ",".join(map(str, brokers)) or "empty"


def short(text: str) -> str:
    """Return a text with client ids in place of member ids: the client id and a random suffix."""
    return re.sub(r"(?<=\w)-[0-9a-f]{16}\b", "", text)


def resource(name: str) -> str:
    """Return the resource of a setting or an operation in words."""
    kind, colon, of = name.partition(":")
    if kind == "broker" and colon:
        return node_of(int(of)) if of.isdigit() else "all brokers"
    return f"{kind} {of}" if colon else name


def _removed(row: Row) -> str:
    ranges = zip(row["removed"][::2], row["removed"][1::2])
    return counted(sum(high - low for low, high in ranges), "record")


def _named(row: Row) -> str:
    if row["kind"] == "KeysAppended":
        dead = row["tombstones"]
        keys = enumerate(row["keys"], row["base_offset"])
        return cut([f"{key}{' (deleted)' * (at in dead)} at {at}" for at, key in keys])
    if row["kind"] == "ShareAcknowledged":
        told = zip(row["offsets"], row["types"], strict=True)
        return cut([f"{reasons.ACKNOWLEDGED[kind]} of {at}" for at, kind in told])
    return cut(list(map(str, row["offsets"])))


def counted(count: int, thing: str) -> str:
    """Return ``1 record``, ``2 records``."""
    return f"{count} {thing}{'s' * (count != 1)}"


WORDS: dict[str, Callable[[Row], str]] = {
    "range": lambda row: span(
        row["base_offset"], row["offset" if row["kind"] == "Processed" else "next_offset"] - 1),
    "share_range": lambda row: span(row["first_offset"], row["last_offset"]),
    "polled": lambda row: span(row["offsets"][0], row["offsets"][-1]) if row["offsets"] else
        "nothing",
    "share": lambda row: f"{PLACE} for share group {row['group']}",
    "producer": lambda row: f"producer id {row['producer_id']}, epoch {row['producer_epoch']}",
    "transaction": lambda row: f"transaction {row['number']} of {row['transactional_id']}",
    "commit_error": lambda row: reasons.commit_refused(row["error"]),
    "topic_use": lambda row: reasons.TOPIC_USES.get(row["topic"], "a client asked for"),
    "record": lambda row: record(row["record_id"]),
    "record_ids": lambda row: cut(list(map(record, row["record_ids"]))) or "control records",
    "member": lambda row: short(row["member_id"]) or "a simple consumer",
    "member_ids": lambda row: ", ".join(row["member_ids"]) or "nobody",
    "assignment": lambda row: ", ".join(row["assignment"]) or "nothing",
    "topics": lambda row: ", ".join(row["topics"]),
    "target": lambda row: resource(row["target"]),
    "resource": lambda row: resource(row["resource"]),
    "acknowledged": lambda row: ids(sorted(row["acknowledged"])),
    "acks": lambda row: "all" if row["acks"] == -1 else str(row["acks"]),
    "capacity": lambda row: f"{row['capacity'] / 2**20:g} MiB",
    "lasts": lambda row: faults.duration(row["duration_us"]),
    "frame": lambda row: str(row["traceback"][-1]),
    "lock": lambda row: str(row["lock_us"] // 1000),
    "short": lambda row: f"{row['digest'] & 0xFFFFFFFF:08x}",
    "results": lambda row: counted(len(row["offsets"]), "result"),
    "listed": lambda row: cut(list(row["positions"])) or "nothing",
    "loads": lambda row: "is now" if row["loaded"] else "is no longer",
    "why": lambda row: reasons.why(row),
    "gone": _removed,
    "named": _named,
    "isr": lambda row: ids(row["isr"]),
    "replica_ids": lambda row: ids(row["replica_ids"]),
    "voters": lambda row: ids(row["voters"]),
}  # fmt: skip
"""The words of templates that are no field of the row, or say a field in other words."""


class _Fields(dict[str, Any]):
    """What a template may name: the words above, and the fields of the row."""

    def __init__(self, row: Row) -> None:
        super().__init__(row, place=PLACE)
        self._row = row

    def __getitem__(self, name: str) -> Any:
        return WORDS[name](self._row) if name in WORDS else super().__getitem__(name)


# ------------------------------------------------------------------------------------------ Teller

AHEAD = ("TopicCreated", "ConsumerAssigned", "FaultStarted", "FaultEnded", "GroupState", "Phase")
"""Kinds that a sentence needs although they may come later."""

FOLLOWED = (
    "PartitionChanged", "HighWatermark", "BrokerRegistration", "BrokerState", "HostStopped",
    "GroupState",
)  # fmt: skip
"""Kinds of earlier rows that a sentence needs."""

REPEATED = {
    "PartitionChanged": ("topic_id", "partition"), "BrokerRegistration": ("broker",),
    "VotersChanged": (), "ZooKeeperSession": ("event",),
}  # fmt: skip
"""Kinds of which a row may be repeated, and what it is about."""

LONG_WAIT_US = 5_000_000
"""From this time on a join phase is told to have waited."""

SAME_MOMENT_US = 1_000_000
"""A partition that has a leader again so soon was not without one."""

Key = tuple[str, int]  # topic id, partition


def _key(row: Row) -> Key:
    return row["topic_id"], row["partition"]


def _what(row: Row) -> tuple[Any, ...]:
    return (row["kind"], *(row[name] for name in REPEATED[row["kind"]]))


class Teller:
    """Follows the rows of a run in order, and says each of them."""

    def __init__(self, manifest: Mapping[str, Any], ahead: Iterable[Row]) -> None:
        """Take the rows of AHEAD into account."""
        spec = manifest.get("spec", {})
        self.zookeeper = spec.get("cluster", {}).get("mode") == "zookeeper"
        self._faults = spec.get("faults", [])
        self.topics: dict[str, str] = {}
        self._members: dict[str, str] = {}  # member id: its host
        self.lasted: dict[int, int] = {}  # both rows of a fault that ended: how long it lasted
        self._newest: dict[tuple[Any, ...], int] = {}  # of what is repeated: offset or zxid
        self._partitions: dict[Key, Row] = {}
        self._led: dict[Key, tuple[int, int]] = {}  # without a leader: who led last, since when
        self._high_watermarks: dict[Key, dict[int, int]] = {}  # by leader epoch
        self._preparing: dict[str, int] = {}  # groups in a join phase: since when
        self._leaving: dict[int, str] = {}  # brokers that shut down: why they will be fenced
        self._awaited: dict[int, list[str]] = {}  # rows that begin a long rebalance: for whom
        begun: dict[tuple[str, str], list[Row]] = {}
        ahead = list(ahead)
        self._look_for_long_rebalances(ahead)
        for row in ahead:
            if row["kind"] == "TopicCreated":
                self.topics.setdefault(row["topic_id"], row["topic"])
            elif row["kind"] == "ConsumerAssigned":
                self._members[row["member_id"]] = row["node"]
            elif row["kind"] in ("GroupState", "Phase"):
                continue
            elif row["kind"] == "FaultStarted":
                begun.setdefault((row["fault"], row["target"]), []).append(row)
            elif begun.get((row["fault"], row["target"])):
                first = begun[row["fault"], row["target"]].pop(0)
                lasted = row["t_us"] - first["t_us"]
                self.lasted |= {first["seq"]: lasted, row["seq"]: lasted}

    def _look_for_long_rebalances(self, ahead: Iterable[Row]) -> None:
        """Find the rebalances that last, and the members for whose JoinGroup they wait.

        These are the members of the generation before that are not in the next one, or all of them
        if they have joined in the end, or if the run ends before.
        """
        members: dict[str, list[str]] = {}  # of each group's last generation
        begun: dict[str, Row] = {}

        def ends(first: Row, row: Row, joined: list[str]) -> None:
            known = [
                each for each in members.get(first["group"], ()) if each in first["member_ids"]
            ]
            if known and row["t_us"] - first["t_us"] >= LONG_WAIT_US:
                missing = [each for each in known if each not in joined]
                self._awaited[first["seq"]] = missing or known

        for row in ahead:
            if row["kind"] == "Phase" and row["phase"] == "end":
                for first in begun.values():
                    ends(first, row, [])
            if row["kind"] != "GroupState":
                continue
            group = row["group"]
            if row["state"] == "PreparingRebalance":
                begun.setdefault(group, row)
            else:
                if group in begun:
                    ends(begun.pop(group), row, list(row["member_ids"]))
                members[group] = list(row["member_ids"])

    def follow(self, row: Row) -> None:
        """Take a row into account, after it was said."""
        kind, news = row["kind"], self.is_news(row)
        if news:
            self._newest[_what(row)] = row["zxid" if kind == "ZooKeeperSession" else "offset"]
        if kind == "PartitionChanged" and news:
            before = self.before(row)
            if before is not None and row["leader"] < 0 <= before["leader"]:
                self._led[_key(row)] = (before["leader"], row["t_us"])
            self._partitions[_key(row)] = row
        elif kind == "GroupState" and row["state"] == "PreparingRebalance":
            self._preparing.setdefault(row["group"], row["t_us"])
        elif kind == "GroupState":
            self._preparing.pop(row["group"], None)
        elif kind == "HighWatermark":
            known, epoch = self._high_watermarks.setdefault(_key(row), {}), row["leader_epoch"]
            known[epoch] = max(known.get(epoch, 0), row["high_watermark"])
        elif kind == "BrokerState" and row["state"] == "PENDING_CONTROLLED_SHUTDOWN":
            self._leaving[broker_of(row["node"])] = "it shuts down and leads no partition"
        elif kind == "HostStopped" and row["reason"] != "shutdown":
            self._leaving.pop(broker_of(row["node"]), None)
        elif kind == "BrokerRegistration" and news:
            self._registered(row["broker"], row["change"])

    def _registered(self, broker: int, change: str) -> None:
        if change == "shutting-down":
            self._leaving[broker] = "its controlled shutdown is done"
        elif change == "fenced" and broker in self._leaving:
            self._leaving[broker] = "the session of the process that shut down is over"
        else:
            self._leaving.pop(broker, None)

    def before(self, row: Row) -> Row | None:
        """Return what a PartitionChanged changes, None for the partition's first."""
        return self._partitions.get(_key(row))

    def is_news(self, row: Row) -> bool:
        """Return whether a row of metadata is the first with its offset or zxid.

        A new controller repeats what its predecessor committed, and every voter tells the voters.
        """
        if row["kind"] not in REPEATED:
            return False
        at = row["zxid" if row["kind"] == "ZooKeeperSession" else "offset"]
        return bool(at > self._newest.get(_what(row), -1))

    def of(self, row: Row) -> list[Sentence]:
        """Return what a row says: a sentence, of a changed partition one for each change."""
        kind = row["kind"]
        if kind in METHODS:
            said = getattr(self, f"_{_snake(kind)}")(row)
            return said if isinstance(said, list) else [said]
        detail = f" (leader epoch {row['leader_epoch']})" if kind in COORDINATED else ""
        if kind == "OffsetExpired":
            detail = f" {row['offset']}"
        if kind in ("CommitResult", "LogStart"):
            detail = f" at {row['offset']}" if kind == "CommitResult" else f" below {row['offset']}"
        if kind == "RestoreBegan":
            detail = f" from offset {row['start_offset']}"
            detail += f" to {row['end_offset']}" if row["role"] == "active" else " on"
        if kind == "LogLoaded":
            detail = f": offsets {row['log_start_offset']} to {row['log_end_offset']}"
        return [Sentence(self._text(row), self._place(row), detail)]

    def _text(self, row: Row) -> str:
        kind = row["kind"]
        if kind not in SAID:
            names = FACTS[kind].__dataclass_fields__  # type: ignore[attr-defined]
            fields = ", ".join(f"{name.replace('_', ' ')} {row[name]}" for name in names)
            return f"{row['node']}: {_snake(kind).replace('_', ' ')} ({fields})"
        template = SAID[kind][1]
        text = template if isinstance(template, str) else template(row)
        return text.format_map(_Fields(row))

    def _place(self, row: Row) -> str:
        if row["kind"] in OF_TASKS:
            return str(row["task"])
        if row.get("partition") is None:
            return ""
        topic = self.topics.get(row.get("topic_id") or "", row.get("topic_id"))
        topic = topic or row.get("topic") or COORDINATED.get(row["kind"], "")
        return f"{topic}-{row['partition']}"

    # What says more together with earlier rows.

    def _phase(self, row: Row) -> Sentence:
        if row["phase"] == "end":
            converged = row["reason"] == "converged"
            how = "everything has converged" if converged else f"no progress: {row['reason']}"
            return Sentence(f"the run ends: {how}")
        healed = f"other faults end, {row['reason']} for ever" if row["reason"] else "faults end"
        return Sentence({
            "ready": "the cluster is ready, the clients start",
            "liveness": f"all {healed}; from here on everything must make progress",
        }.get(row["phase"], f"the run is {row['phase']}"))  # fmt: skip

    def _fault_started(self, row: Row) -> Sentence:
        kind, target = row["fault"], row["target"]
        numbers = faults.numbers_of(self._faults, kind, target)
        name, effect = faults.name(kind, target, numbers), faults.effect(kind, numbers)
        lasted = self.lasted.get(row["seq"], -1)
        if kind in faults.STOPS or lasted == 0:
            return Sentence(f"fault: {name}: {effect}")
        how_long = f" for {faults.duration(lasted)}" if lasted > 0 else ""
        return Sentence(f"fault begins: {name}{how_long}: {effect}")

    def _fault_ended(self, row: Row) -> Sentence:
        numbers = faults.numbers_of(self._faults, row["fault"], row["target"])
        return Sentence(f"fault ends: {faults.name(row['fault'], row['target'], numbers)}")

    def _broker_registration(self, row: Row) -> Sentence:
        broker, change = row["broker"], row["change"]
        if change == "fenced" and self.zookeeper:
            return Sentence(f"the controller sees that {node_of(broker)} is gone from ZooKeeper")
        why = self._leaving.get(broker, "its heartbeats are missing")
        text = reasons.REGISTRATIONS.get(change, "{host}: {change}")
        return Sentence(text.format_map({**row, "host": node_of(broker), "why": why}))

    def _partition_changed(self, row: Row) -> list[Sentence]:
        before, place = self.before(row), self._place(row)
        if before is None or not self.is_news(row):
            how = "is created" if before is None else f"is as before ({row['reason']})"
            text = f"{PLACE} {how}: leader {row['leader']}, ISR {ids(row['isr'])}"
            return [Sentence(text, place)]
        said = [*self._isr(before, row), *_reassignment(before, row), *self._leader(before, row)]
        said = said or [Sentence(f"{PLACE} changes ({row['reason']})")]
        return [each._replace(place=place) for each in said]

    def _isr(self, before: Row, row: Row) -> list[Sentence]:
        if row["unclean"]:
            return []  # the ISR is the new leader alone, says the election's sentence
        left = sorted(broker for broker in before["isr"] if broker not in row["isr"])
        joined = sorted(broker for broker in row["isr"] if broker not in before["isr"])
        now, said = f"; the ISR is now {ids(sorted(row['isr']))}", []
        if left:
            brokers, verb = (
                " and ".join(map(node_of, left)),
                "leaves" if len(left) == 1 else "leave",
            )
            why = reasons.left_isr(row["reason"], self.zookeeper)
            said.append(f"{brokers} {verb} the ISR of {PLACE} ({why}){DETAIL}")
        why = "added by the reassignment" if row["reason"] == "reassignment" else "caught up"
        said += [f"{node_of(b)} joins the ISR of {PLACE} ({why}){DETAIL}" for b in joined]
        return [Sentence(text, detail=now) for text in said]

    def _leader(self, before: Row, row: Row) -> list[Sentence]:
        new, old = row["leader"], before["leader"]
        if new == old:
            return []
        last, since = self._led.get(_key(row), (-1, 0))
        if old == -1 and row["t_us"] - since <= SAME_MOMENT_US:
            old = last
        why = reasons.elected(row["reason"], self.zookeeper, new, old)
        epoch = f" (leader epoch {row['leader_epoch']})"
        if new == -1:
            other = "" if self.zookeeper else " and no other replica may lead"
            return [Sentence(f"no leader for {PLACE}: {why}{other}")]
        if row["unclean"]:
            text = f"UNCLEAN election: {node_of(new)}, not in the ISR {ids(before['isr'])}, leads"
            text += f" {PLACE}{DETAIL}; records that only the ISR had are lost"
        elif old == -1:
            text = f"{node_of(new)} becomes leader of {PLACE}{DETAIL}, which had none"
        else:
            text = f"{node_of(new)} replaces {node_of(old)} as leader of {PLACE}{DETAIL}: {why}"
        return [Sentence(text, detail=epoch)]

    def _isr_update_failed(self, row: Row) -> Sentence:
        who, why = reasons.refused(row["error"], self.zookeeper)
        did = f"{who} refuses an ISR change by {row['node']}"
        if not who:
            did = f"{row['node']} does not send an ISR change"
        return Sentence(f"{did} for {PLACE}: {why}", self._place(row))

    def _truncated(self, row: Row) -> Sentence:
        offset, end = row["offset"], row["log_end_offset"]
        known = self._high_watermarks.get(_key(row), {})
        before = [hw for epoch, hw in known.items() if epoch < row["leader_epoch"]]
        committed, gone = max(0, min(end, max(before, default=0)) - offset), end - offset
        text = f"{row['node']} truncates {PLACE} from offset {end} to {offset}, to follow leader"
        text += f" epoch {row['leader_epoch']}"
        if gone == 1:
            text += f": 1 record cut, which had {'' if committed else 'not '}been committed"
        elif gone > 1:
            share = {0: "none", gone: "all"}.get(committed, str(committed))
            text += f": {gone} records cut, {share} of them had been committed"
        return Sentence(text, self._place(row))

    def _group_state(self, row: Row) -> Sentence:
        group, why = row["group"], short(row["reason"]).rstrip(": ")
        if row["state"] == "PreparingRebalance":
            return Sentence(f"group {group} rebalances: {why}{self._whom_it_awaits(row)}")
        members = sorted(self._members.get(each) or short(each) for each in row["member_ids"])
        whom = f"members {faults.listing(members)}" if members else "no members"
        if row["state"] == "Dead":
            return Sentence(f"group {group} is removed: {reasons.GROUP_REMOVED.get(why, why)}")
        text = f"group {group}: generation {row['generation']}, {whom}"
        waited = row["t_us"] - self._preparing.get(group, row["t_us"])
        if waited >= LONG_WAIT_US:
            text += f"; its rebalance waited {waited / 1e6:.1f} s"
            text += f": {why}" * (why not in reasons.NOBODY_MISSED)
        return Sentence(text)

    def _whom_it_awaits(self, row: Row) -> str:
        """Return for whom a rebalance waits, if it lasts; a member joins when it polls."""
        awaited = [
            self._members.get(each) or short(each) for each in self._awaited.get(row["seq"], ())
        ]
        if not awaited:
            return ""
        limit = f", {faults.duration(row['wait_us'])} at most" * (row["wait_us"] >= 0)
        return f"; it waits for {faults.listing(sorted(awaited))} to join again{limit}"

    def _instance_id_held(self, row: Row) -> Sentence:
        owner, refused = row["owner"], row["member_id"]
        held = f"is held by {self._members.get(owner) or short(owner)}"
        if row["left_us"] >= 0:
            left = faults.duration(round(row["left_us"], -5))
            held += f", until it leaves or {left} have gone by without a heartbeat of it"
        who = self._members.get(refused) or "a member"
        text = f"{row['node']} refuses {who}: group.instance.id {row['instance_id']} of group"
        return Sentence(f"{text} {row['group']} {held} ({row['error']})")

    def _send_failed(self, row: Row) -> Sentence:
        error, records = row["error"], WORDS["record_ids"](row)
        if row["partition"] < 0:
            topic = self.topics.get(row["topic_id"], "")
            of = f" of {topic}" if topic else ""
            why = reasons.NOT_TAKEN.get(error, "it does not take it")
            text = f"the producer of {PLACE} did not take {DETAIL}{of}: {why} ({error})"
            return Sentence(text, row["node"], records)
        may = "may have been appended" if row["indeterminate"] else "not appended"
        may += f"; the last attempt failed with {row['last_error']}" * bool(row["last_error"])
        text = f"{PLACE} failed to send {DETAIL} of {self._place(row)}: {error}, {may}"
        return Sentence(text, row["node"], records)


def _reassignment(before: Row, row: Row) -> list[Sentence]:
    adding, removing = row["adding_replicas"] or [], row["removing_replicas"] or []
    was = (before["adding_replicas"] or []) + (before["removing_replicas"] or [])
    if adding + removing == was:
        return []
    if adding or removing:
        change = [f"adds {ids(adding)}"] * bool(adding)
        change += [f"removes {ids(removing)}"] * bool(removing)
        return [Sentence(f"reassignment of {PLACE}: {' and '.join(change)}")]
    given_up = any(b not in row["replicas"] for b in before["adding_replicas"] or [])
    end = "is cancelled" if given_up else "is complete"
    return [Sentence(f"reassignment of {PLACE} {end}: the replicas are {ids(row['replicas'])}")]


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
