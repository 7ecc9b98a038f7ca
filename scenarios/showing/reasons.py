"""Why ISRs and leaders changed, in words: the reasons and errors of the facts."""

from __future__ import annotations

from kafkasim.scenarios.showing.state import Row

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

STOPPED = {
    "shutdown": "has shut down",
    "application-returned": "ends, as its application has returned; its clients are not closed",
}
"""How a process ended, by the reason of the fact; the other reasons speak for themselves."""

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

GONE = "{old} is gone from ZooKeeper"
"""In ZooKeeper mode nobody is fenced: a broker is gone when its session is."""

REFUSED = {
    "INVALID_UPDATE_VERSION": "the partition has changed since",
    "FENCED_LEADER_EPOCH": "another leader epoch has begun",
    "INELIGIBLE_REPLICA": "a replica that would join is fenced or restarted",
    "OPERATION_NOT_ATTEMPTED": "ZooKeeper has another version of the partition's state",
}
"""Why an ISR change was refused, by the error."""

NOT_SENT = "an earlier change of the partition is in progress (OPERATION_NOT_ATTEMPTED)"
"""In KRaft mode it is the leader's own queue that answers so (AlterPartitionManager.submit)."""


def left_isr(reason: str, zookeeper: bool) -> str:
    """Return why brokers left the ISR."""
    return (
        "gone from ZooKeeper" if zookeeper and reason == "fenced" else LEFT_ISR.get(reason, reason)
    )


def elected(reason: str, zookeeper: bool, new: int, old: int) -> str:
    """Return why the leader changed from broker ``old`` to broker ``new``."""
    gone = zookeeper and reason == "fenced"
    why = GONE if gone else ELECTED.get(reason, reason)
    return why.format(old=f"broker-{old}", new=f"broker-{new}")


def unsent(error: str, zookeeper: bool) -> bool:
    """Return whether the leader has not asked anybody for the ISR change that failed."""
    return error == "OPERATION_NOT_ATTEMPTED" and not zookeeper


def refused(error: str, zookeeper: bool) -> str:
    """Return why an ISR change was refused, or not sent."""
    if unsent(error, zookeeper):
        return NOT_SENT
    return f"{REFUSED[error]} ({error})" if error in REFUSED else error


ATTEMPTS = {
    "done": "{node} has its partitions of group {group}",
    "conflict": "{node} cannot claim its partitions of group {group}: they still have owners",
    "no-brokers": "{node} finds no broker and leaves group {group} as it is",
    "error": "{node} fails to rebalance in group {group}: {reason}",
    "gave-up": "{node} gives up after {attempt} attempts and stays in group {group} without"
    " partitions",
}
"""What an old consumer's attempt at a rebalance came to, by its outcome."""


def attempt(row: Row) -> str:
    """Return what an old consumer's attempt at a rebalance came to."""
    outcome = row["outcome"]
    text = ATTEMPTS.get(outcome, ATTEMPTS["error"]).format(**row)
    again = row["attempt"] > 1 and outcome != "gave-up"
    return f"{text} (attempt {row['attempt']})" if again else text


def acted(row: Row) -> str:
    """Return where a variant and the rule that it replaces decide otherwise for the first time."""
    where = "" if row["node"] == "world" else f" on {row['node']}"
    return f"the variant first differs from Kafka{where}: {row['rule']}"


ABORTS = {
    "timeout": "it has been open for longer than transaction.timeout.ms",
    "fence": "another producer was initialized with its transactional id",
}
"""Why a coordinator aborts a transaction by itself."""


def transaction(row: Row) -> str:
    """Return what happened to a transaction against its producer's will, "" if nothing did.

    ``row`` is a TransactionState or a TransactionEnded.
    """
    identity, node = row["transactional_id"], row["node"]
    if row["kind"] == "TransactionEnded":
        fenced = f"{node} is fenced: transactional id {identity} has a newer epoch"
        return fenced if row["outcome"] == "fenced" else ""
    if row["state"] != "PrepareAbort" or row["reason"] not in ABORTS:
        return ""
    return f"{node} aborts the transaction of {identity}: {ABORTS[row['reason']]}"
