"""The words that a scenario file may use: releases of Kafka, operations, anomalies, observations.

They are data that the tables of :mod:`.tables` and the checks of :mod:`.checks` refer to. What an
operation does is in ``running/operations.py``; the trace's facts become observations in
``judging/observer.py`` and anomalies in ``judging/delivery.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator

Version = Literal["2.8-zk", "3.9", "4.0", "4.1"]

Release = Annotated[Version, BeforeValidator(lambda v: str(v) if isinstance(v, float) else v)]
"""A release as a key has it: TOML and --set read 4.0 without quotes as a number."""

VERSIONS: tuple[str, ...] = get_args(Version)
"""The releases of Kafka that a scenario can name, oldest first."""

MODES = {"2.8-zk": "zookeeper", "3.9": "", "4.0": "kraft", "4.1": "kraft"}
"""Release to the only mode it runs in here; "" means that it runs in both."""

ALL_BROKERS = "brokers"
"""The ``node`` of an alter-config that sets the cluster-wide default of all brokers."""


@dataclass(frozen=True, slots=True)
class Verb:
    """The keys that a kind of operation needs, and may have, besides ``kind`` and ``at``."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


VERBS: Mapping[str, Verb] = {
    "rolling-restart": Verb((), ("nodes", "kill", "pause")),
    "rolling-deploy": Verb(("group",), ("config", "remove", "kill", "pause")),
    "restart": Verb(("node",), ("kill", "pause")),
    "stop": Verb(("node",), ("kill",)),
    "start": Verb(("node",), ("kill",)),
    "replace-disk": Verb(("node",), ("kill", "pause")),
    "duplicate-broker": Verb(("node",)),
    "elect-leader": Verb((), ("election", "topic", "partition")),
    "reassign": Verb(("topic",), ("partition", "replicas", "cancel")),
    "alter-config": Verb((), ("topic", "node", "group", "config", "remove")),
    "alter-client-quotas": Verb((), ("client-id", "user", "ip", "config", "remove")),
    "add-acls": Verb(("acls",)),
    "remove-acls": Verb(("acls",)),
    "create-topic": Verb(("topic",), ("partitions", "replication-factor", "assignment", "config")),
    "create-partitions": Verb(("topic", "partitions"), ("assignment",)),
    "delete-topic": Verb(("topic",)),
    "delete-records": Verb(("topic", "offset"), ("partition",)),
    "unregister-broker": Verb(("node",)),
    "upgrade": Verb(("kafka-version",), ("nodes", "config", "remove", "kill", "pause")),
    "update-features": Verb(("features",), ("downgrade",)),
    "add-voter": Verb(("node",)),
    "remove-voter": Verb(("node",)),
    "describe-quorum": Verb(),
    "reset-offsets": Verb(("group", "topic"), ("to", "by-duration")),
    "delete-offsets": Verb(("group", "topic"), ("partition",)),
    "delete-group": Verb(("group",)),
    "abort-hanging": Verb(("topic",), ("partition", "open-for")),
}
"""The kinds of operations."""

QUORUM_VERBS = ("add-voter", "remove-voter", "describe-quorum", "update-features")
"""Operations that address the KRaft quorum; ZooKeeper mode has none of them."""

OBSERVATIONS: Mapping[str, str] = {
    "isr-shrink": "a replica left an ISR; detail: lag, fenced, controlled-shutdown, unclean",
    "isr-expand": "a replica joined an ISR",
    "isr-refused": "an ISR change that a leader proposed was refused; detail: the error",
    "epochs-skipped": "a replica applied a leader epoch without one of the epochs before it",
    "isr-of-one": "a leader's ISR shrank to the leader itself",
    "leader-change": "a partition got another leader; detail: the reason",
    "leaderless": "a partition had no leader",
    "leader-down": "a broker stopped while partitions named it their leader",
    "stopped-early": "a broker shut down before its successors had applied their leadership",
    "unclean-election": "a leader was elected outside the ISR",
    "fenced": "the controller fenced a broker",
    "unfenced": "the controller unfenced a broker that was fenced",
    "controlled-shutdown": "a broker completed a controlled shutdown",
    "truncated": "a replica cut records from its log",
    "failover": "another controller became active after t = 0",
    "send-failed": "a producer gave a batch up, or did not take a record; detail: the error",
    "application-failed": "an application raised an exception; detail: its class",
    "disk-filled": "a log directory had no room for a write",
    "restarted": "a restart policy started the process of a client again",
    "group-converted": "a group with members changed its protocol; detail: classic or consumer",
    "rebalance": "a group began a generation after its first",
    "revoked-in-vain": "a consumer gave a partition up and got it back in its next assignment",
    "member-expired": "a group's member was removed; detail: session, poll-interval,"
    " rebalance-timeout (KIP-848)",
    "standstill": "a member that had to give all its partitions up waited a second for others",
    "coordinator-moved": "another broker took a group coordinator over",
    "load-in-progress": "a coordinator that still loads refused a request; detail: its kind",
    "long-load": "a new coordinator loaded its partition for a second or more; detail: groups,"
    " transactions",
    "long-restore": "an active task of Kafka Streams had 1000 records or more to restore",
    "recycled": "a task of Kafka Streams changed its role and kept its state; detail: the role that"
    " it had, active or standby",
    "record-dropped": "an operator of Kafka Streams dropped a record; detail: expired-window (it"
    " was late), expired-segment, null-key, null-key-or-value",
    "emitted": "a task of Kafka Streams wrote to a topic that is no changelog; detail: the topic",
    "thread-failed": "a thread of Kafka Streams ended with an error",
    "state-wiped": "the state of a task was deleted; detail: dirty, corrupted, cleaner, …",
    "transaction-committed": "a producer was told that its transaction is committed",
    "transaction-aborted": "a producer was told that its transaction is aborted",
    "producer-fenced": "a producer learned that another one has its transactional id",
    "transaction-timed-out": "a coordinator ended a transaction after transaction.timeout.ms",
    "long-transaction": "a marker came a second or more after the first record of its transaction",
    "open-transaction-read": "a consumer got a record of a transaction that was still open",
    "producer-id-rotated": "a coordinator gave a transactional id another producer id, because the"
    " epochs of the first were used up",
    "transaction-coordinator-moved": "another broker coordinates a transactional id",
    "cleaned": "a log cleaner removed records of a compacted topic; detail: the topic",
    "missed-deletion": "a group kept a deleted value: its tombstone was removed before the group"
    " came there",
    "uncleanable": "a log cleaner met a damaged log and gave it up",
    "expired": "retention deleted segments of a log; detail: retention.ms or retention.bytes",
    "offset-expired": "a coordinator removed a committed offset: offsets.retention.minutes were"
    " over, or the topic was deleted; detail: the group",
    "group-removed": "a coordinator removed an empty group; detail: the group",
    "transactional-id-expired": "a coordinator forgot a transactional id that nobody had used for"
    " transactional.id.expiration.ms; detail: the id",
    "producer-id-expired": "a replica forgot a producer that was silent for"
    " producer.id.expiration.ms",
    "instance-id-held": "a member was refused because another one has its group.instance.id;"
    " detail: the error",
    "replica-failed": "a replica gave up fetching a partition",
    "recovered": "a log was recovered after an unclean stop",
    "follower-read": "a consumer was sent to a replica of its own rack (KIP-392)",
    "back-to-leader": "a consumer left such a replica for the leader",
    "records-deleted": "a leader raised its log start offset for DeleteRecords",
    "log-reset": "a follower emptied its log and continued at the leader's log start",
    "rebootstrapped": "a client asked its bootstrap servers anew (KIP-899); detail: why",
    "redelivered": "a group got a record twice",
    "reset-past-records": "a group reset a partition to its end while it was reading the topic",
    "commit-refused": "a commit was refused for its generation or member; detail: the error",
    "commit-failed": "a commit failed for another reason; detail: the error",
    "lagging": "a poll left a group 200 records or more behind the high watermark of a partition",
    "caught-up": "a group that was lagging in a partition has read to its high watermark",
    "overtaken": "a position was reset because retention had deleted the records there",
    "share-lock-expired": "a member of a share group held records for too long",
    "share-released": "records came back because a share session ended",
    "share-archived": "a record of a share group was archived; detail: rejected, deliveries or"
    " aborted",
    "share-redelivered": "a leader handed a record of a share group out again",
    "share-leader-changed": "another leader took over what a share group has done in a partition",
    "throttled": "a broker asked a client above its quota to wait; detail: its client id",
    "connection-limited": "a broker closed a new connection, or let it wait; detail: the limit,"
    " e.g. max.connections.per.ip",
    "denied": "a broker's authorizer refused somebody something; detail: the principal",
    "slow-acks": "a second or more passed from a batch's creation to its acknowledgement; detail:"
    " the producer",
    "retried": "a batch was acknowledged after more than one attempt",
    "indeterminate": "a producer gave a batch up that may be in the log all the same",
    "hot-partition": "one partition of a topic took more than half of its first 400 records",
    "control-refused": "a broker refused a ZooKeeper controller's request; detail: the error",
    "session-expired": "a ZooKeeper session expired; detail: broker, or consumer of an old one",
    "owner-conflict": "an old consumer found the owner's znode of another one",
    "rebalance-given-up": "an old consumer's attempts at a rebalance had all failed",
    "zombie-poll": "an old consumer got a record of a partition that another one had claimed",
    "bounced": "a broker came back before the ZooKeeper controller had noticed its absence",
    "min-isr-refused": "an acks=all record failed with NOT_ENOUGH_REPLICAS, or was refused with it"
    " until delivery.timeout.ms",
    "creation-refused": "the controller refused a topic that a broker wanted by itself, as those of"
    " coordinators; detail: the topic",
    "operated": "an operation succeeded; detail: its kind",
    "refused": "an operation was refused; detail: the error",
    "reassigning": "a reassignment began",
    "reassigned": "a reassignment completed",
    "reassignment-cancelled": "a reassignment was cancelled",
    "duplicate-refused": "a second process of a node id was refused its registration",
    "topic-deleted": "a topic was deleted",
    "topic-recreated": "a topic was created under the name of a deleted one",
    "log-deleted": "a broker dropped a replica",
    "log-dir-offline": "one of several log directories of a broker failed",
    "elected-from-elr": "a leader was elected out of the ELR while the ISR was empty",
    "out-of-elr": "an unclean restart took a replica out of the ELR",
    "isr-empty": "a partition had no ISR (with ELR only)",
    "voters-changed": "a controller adopted another set of voters (KIP-853)",
    "snapshot": "a metadata snapshot was created, loaded (a leader's), or cleaned (before the log"
    " start); detail: which of the three",
    "metadata-without-quorum": "metadata was committed while most voters of the quorum, or most"
    " ZooKeeper servers, were down",
    "acked-without-quorum": "a send was acknowledged while most voters of the quorum, or most"
    " ZooKeeper servers, were down",
}
"""What ``must-see``, ``in-time``, ``fleet-must-see`` and ``never`` may name, and what it means."""
