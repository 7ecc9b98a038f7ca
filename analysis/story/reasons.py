"""Reasons and errors of facts in words: why an ISR or a leader changed, an offset was taken, …"""

from __future__ import annotations

from kafkasim.model.facts.names import node_of
from kafkasim.sim.trace.reading import Row

LEFT_ISR = {
    "lag": "lagging behind the leader",
    "fenced": "fenced by the controller",
    "controlled-shutdown": "shutting down",
    "dir-offline": "log directory offline",
    "reassignment": "no longer a replica",
    "deletion": "its topic is being deleted",
    "registered": "back from an unclean shutdown",
    "unregistered": "unregistered",
}
"""Why a broker left the ISR, by the reason of the fact."""

ELECTED = {
    "fenced": "{old} was fenced",
    "unfenced": "{new} was unfenced",
    "controlled-shutdown": "{old} is shutting down",
    "dir-offline": "the log directory of {old} is offline",
    "reassignment": "by the reassignment",
    "preferred": "{new} is the preferred leader",
    "registered": "{old} came back from an unclean shutdown",
    "unregistered": "{old} was unregistered",
}
"""Why a leader was elected, by the reason of the fact."""

REFUSED = {
    "INVALID_UPDATE_VERSION": "the partition has changed since",
    "FENCED_LEADER_EPOCH": "another leader epoch has begun",
    "INELIGIBLE_REPLICA": "a replica that would join is fenced or restarted",
    "OPERATION_NOT_ATTEMPTED": "ZooKeeper has another version of the partition's state",
}
"""Why an ISR change was refused, by the error."""

NOT_SENT = "an earlier change of the partition is in progress (OPERATION_NOT_ATTEMPTED)"
"""In KRaft mode it is the leader's own queue that answers so (AlterPartitionManager.submit)."""

TOPIC_USES = {
    "__consumer_offsets": "groups need for a coordinator (offsets.topic.replication.factor)",
    "__transaction_state": "transactional producers need for a coordinator"
    " (transaction.state.log.replication.factor)",
    "__share_group_state": "share groups need for their state"
    " (share.coordinator.state.topic.replication.factor)",
}
"""Why a broker wants a topic created."""

OFFSET_EXPIRED = {
    "empty": "the group has had no member for offsets.retention.minutes",
    "commit": "it was committed longer ago than offsets.retention.minutes",
    "topic-deleted": "the topic is deleted",
}
"""Why a coordinator removed a committed offset, by the reason of the fact."""

GROUP_REMOVED = {
    "expired": "it is empty, and its last offset has expired or gone with its topic",
    "empty": "it is empty and has no offsets left",
    "deleted": "an operator deletes it",
}
"""Why a coordinator removed a group, by the reason of the fact."""

NOBODY_MISSED = ("all members joined", "no members")
"""The reasons of a new generation whose join phase lost no member."""

COMMIT_REFUSED = {
    "ILLEGAL_GENERATION": "the group is in a newer generation",
    "UNKNOWN_MEMBER_ID": "the group has removed the member",
    "FENCED_INSTANCE_ID": "its group.instance.id is another member's",
    "STALE_MEMBER_EPOCH": "the member is in a newer epoch",
    "REBALANCE_IN_PROGRESS": "the group rebalances",
}
"""Why a commit was refused, by the error."""

NOT_TAKEN = {
    "MESSAGE_TOO_LARGE": "larger than max.request.size or buffer.memory allow",
    "BUFFER_EXHAUSTED": "no room in buffer.memory within max.block.ms",
    "TIMED_OUT": "no metadata of its topic within max.block.ms",
    "CLOSED": "the producer is closed",
    "TOPIC_AUTHORIZATION_FAILED": "no entry lets it describe the topic",
    "SERIALIZATION": "its key or value could not be serialized",
}
"""Why a producer did not take a record, by the error that its application got."""

REGISTRATIONS = {
    "registered": "{host} registers with broker epoch {broker_epoch}",
    "fenced": "the controller fences {host}: {why}",
    "shutting-down": "{host} begins a controlled shutdown; the controller moves its leaderships"
    " away",
    "unfenced": "the controller unfences {host}: it may lead and join ISRs again",
    "unregistered": "{host} is unregistered",
    "dir-offline": "{host} reports a failed log directory to the controller",
    "bounced": "the controller sees that {host} has restarted meanwhile",
}
"""What happened to the registration of a broker."""

ATTEMPTS = {
    "done": "{node} has its partitions of group {group}",
    "conflict": "{node} cannot claim its partitions of group {group}: they still have owners",
    "no-brokers": "{node} finds no broker and leaves group {group} as it is",
    "gave-up": "{node} gives up after {attempt} attempts and stays in group {group} without"
    " partitions",
}
"""What an old consumer's attempt at a rebalance came to, by its outcome."""

ACKNOWLEDGED = {0: "gap", 1: "accept", 2: "release", 3: "reject"}
"""What a member of a share group says of a record (AcknowledgeType)."""

WHY: dict[str, dict[str, str]] = {
    "HostStopped": {
        "shutdown": "has shut down",
        "application-returned": "ends: its application has returned, and what it left open is cut",
        "halt": "ends itself",
        "disk-error": "does not start: its disk cannot be read",
        "power-loss": "stops: power loss; data that it had not flushed is lost",
    },
    "Positioned": {
        "committed": "the offset that its group has committed",
        "earliest": "auto.offset.reset is earliest",
        "latest": "auto.offset.reset is latest",
        "seek": "its application asked for it",
        "truncation": "the leader's log ends there in the epoch that it knew",
    },
    "TransactionEnded": {
        "committed": "it is committed",
        "aborted": "it is aborted",
        "failed": "the producer does not know its outcome",
    },
    "TransactionState": {
        "end": "its producer asked for that",
        "timeout": "it has been open for longer than transaction.timeout.ms",
        "fence": "another producer was initialized with its transactional id",
        "markers": "every marker is written",
        "init": "a producer is initialized",
        "add": "partitions are added",
        "expired": "nobody has used it for transactional.id.expiration.ms",
    },
    "SharePartitionClosed": {
        "leadership": "it no longer leads the partition",
        "empty": "the group has no member",
    },
    "ShareMoved": {
        "acknowledged": "its member acknowledged them",
        "session-ended": "its member's share session is over",
        "lock-expired": "its acquisition lock has expired",
        "rolled-back": "their state could not be written",
        "aborted": "they belong to an aborted transaction",
    },
    "ShareStartMoved": {
        "records": "all records below it are accepted, rejected or archived",
        "log-start": "the log begins there",
    },
}
"""By the kind of a fact: its reason or outcome in words."""

OTHERWISE = {"HostStopped": "stops: {0}", "SharePartitionClosed": "the persister answered {0}"}
"""How a reason is said that has no words of its own."""


def why(row: Row) -> str:
    """Return the reason or the outcome of a row in words."""
    kind = row["kind"]
    reason = row["outcome"] if kind == "TransactionEnded" else row["reason"]
    return WHY[kind].get(reason) or OTHERWISE.get(kind, "{0}").format(reason)


def commit_refused(error: str) -> str:
    """Return why a commit was refused, with the error."""
    return f"{COMMIT_REFUSED[error]} ({error})" if error in COMMIT_REFUSED else error


def left_isr(reason: str, zookeeper: bool) -> str:
    """Return why brokers left the ISR."""
    if zookeeper and reason == "fenced":
        return "gone from ZooKeeper"
    return LEFT_ISR.get(reason, reason)


def elected(reason: str, zookeeper: bool, new: int, old: int) -> str:
    """Return why the leader changed from broker ``old`` to broker ``new``."""
    gone = zookeeper and reason == "fenced"  # nobody is fenced there: its session is over
    why = "{old} is gone from ZooKeeper" if gone else ELECTED.get(reason, reason)
    return why.format(old=node_of(old), new=node_of(new))


def refused(error: str, zookeeper: bool) -> tuple[str, str]:
    """Return who refused an ISR change ("" for nobody: it was not sent), and why."""
    if error == "OPERATION_NOT_ATTEMPTED" and not zookeeper:
        return "", NOT_SENT
    who = "ZooKeeper" if error == "OPERATION_NOT_ATTEMPTED" else "the controller"
    return who, f"{REFUSED[error]} ({error})" if error in REFUSED else error


TASK_STATES = {
    ("active", "RESTORING"): "{node} opens task {place} of {group}, to restore it",
    ("active", "RUNNING"): "{node} processes task {place} of {group}",
    ("active", "SUSPENDED"): "{node} suspends task {place} of {group}",
    ("active", "CLOSED"): "{node} closes task {place} of {group}",
    ("standby", "RUNNING"): "{node} stands by for task {place} of {group}",
}
"""A role and a state of a task of Kafka Streams to what its instance does."""
