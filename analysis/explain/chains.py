"""The chains of anomalies: which facts lead to one, and which of them is decisive.

Most findings are explained by what came just before their row: PRECEDED has, by name, which facts
those are. The rest is written out: a record that was lost, one that was delivered twice or never,
and a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkasim.analysis.explain import compaction, transactions
from kafkasim.analysis.explain.chain import Chain, Found
from kafkasim.analysis.explain.facts import END, Facts, Key
from kafkasim.analysis.explain.loss import copies, exposed_before, loss, missing_member
from kafkasim.analysis.story.reasons import why
from kafkasim.model.facts.names import record
from kafkasim.sim.trace.reading import Row

PLACE = ("topic_id", "partition")
REPLICA = (*PLACE, "node")
ROLES = ("BecameLeader", "BecameFollower")
LOG = ("Truncated", "LogLoaded", "LogStart", "LogDeleted", "ReplicaFailed")
HOST = ("HostStopped", "HostStarted", "DiskReplaced")
FATES = transactions.FATES


@dataclass(frozen=True)
class Before:
    """The last facts of some kinds before a row, with the same values in some columns.

    ``role`` is that of a RaftRole, "" for any.
    """

    kinds: tuple[str, ...]
    same: tuple[str, ...] = PLACE
    most: int = 1
    role: str = ""

    def rows(self, facts: Facts, row: Row) -> list[Row]:
        """Return them; none where the row lacks one of the columns."""
        if any(name not in row for name in self.same):
            return []
        equal = {name: row[name] for name in self.same} | ({"role": self.role} if self.role else {})
        found = facts.rows(self.kinds, before=row["seq"], **equal)
        return [each for each in found if each.get("incarnation") != 0][-self.most :]


@dataclass(frozen=True)
class Preceded:
    """Facts before the finding's row, and a conclusion about that row. Decisive is the row, or the
    last of the facts before it that is of a kind in ``turn``."""

    before: tuple[Before, ...]
    conclusion: str = ""
    turn: tuple[str, ...] = ()

    def chain(self, facts: Facts, row: Row) -> Chain:
        """Return the chain of a finding of this row."""
        chain = Chain()
        for before in self.before:
            chain.add(*before.rows(facts, row))
        decisive = [each for each in chain.rows.values() if each["kind"] in self.turn] or [row]
        chain.add(row)
        chain.turns(max(decisive, key=_seq), self.conclusion.format_map(row))
        return chain


def _seq(row: Row) -> int:
    return int(row["seq"])


HISTORY = (Before((*ROLES, *LOG), REPLICA, 6), Before(HOST, ("node",), 3))
CHANGES = Before(("PartitionChanged",), PLACE, 2)
REPLICA_HISTORY = Preceded((*HISTORY, CHANGES), "", (*ROLES, *LOG))
"""What happened to the replica of a row; the last change of its log or its role is decisive."""

HOST_RECORDS = (Before(HOST, ("node",), 3),)
HOST_HISTORY = Preceded(HOST_RECORDS)
TASK = ("group", "task")
MIRRORED = Before(("OffsetSynced",), ("topic", "partition"), 4)
GROUP = Before(("GroupState",), ("group",), 4)
COMMITTED = ("group", "topic", "partition")

PRECEDED: Mapping[str, Preceded] = {
    **dict.fromkeys(("LOGORDER", "EPOCHCACHE", "ORDER"), REPLICA_HISTORY),
    "HWMONO": Preceded(
        (*HISTORY, Before(("HighWatermark",), (*REPLICA, "leader_epoch"), 2)),
        "what consumers could read before, the leader took back",
    ),
    "MINISR": Preceded(
        (CHANGES, Before(("BecameLeader",), REPLICA)),
        "too few replicas had the records: {min_isr} are required",
    ),
    "ONELEADER": Preceded(
        (Before(("RaftRole",), ("role", "epoch"), 2), Before(("RaftRole",), ("node",), 4),
         Before(("BecameLeader",), (*PLACE, "leader_epoch"), 2), CHANGES, *HISTORY[1:]),
        "{node} is a second leader of the epoch",
    ),
    "META": Preceded(
        (Before(("MetadataCommitted",), ("offset",), 3), Before(("RaftRole",), (), 3, "leader"),
         Before(("ZkControllerWrite", "ControllerActive"), (), 2), CHANGES, *HISTORY[1:]),
        "it does not follow from what was decided before: two controllers decide",
        ("RaftRole",),
    ),
    "ISRELIG": Preceded(
        (CHANGES, Before(("BrokerRegistration",), (), 4)),
        "a broker that may not lead is in the ISR, and could be elected",
    ),
    "READISR": Preceded((CHANGES,), "the leader knows that the replica is not in the ISR"),
    "LAGREASON": Preceded(
        (Before(("Replicated", *ROLES), PLACE, 4), CHANGES),
        "a replica is removed that lacked nothing, or was behind only for a short time",
    ),
    "FENCEREASON": Preceded(
        (Before(("BrokerHeartbeat", "BrokerRegistration"), ("broker",), 4),
         Before(("ControllerActive",), ())),
        "broker-{broker} is fenced before its session was over",
    ),
    "VERIFYORDER": Preceded(
        (Before(("BatchUnverified",), (*REPLICA, "producer_id"), 3),),
        "a lower sequence waits for its verification, and is out of order from now on",
    ),
    **dict.fromkeys(("wrong-output", "wrong-state"), Preceded(
        (Before(("TaskState", "Restored", "Checkpointed", "StateWiped"), TASK, 6), *HOST_RECORDS),
        "the records that the task took before give another state",
        ("StateWiped", "Checkpointed", "Restored"),
    )),
    "checkpoint-behind": Preceded(
        (MIRRORED, Before(("CheckpointEmitted", "OffsetCommitted"), COMMITTED, 3)),
        "group {group} has read further than the newest checkpoint says",
    ),
    **dict.fromkeys(("translated-past", "needless-reread", "checkpoint-regression"), Preceded(
        (MIRRORED, Before(("CheckpointEmitted",), COMMITTED, 2)),
        "group {group} would continue at {downstream} in the target",
    )),
    "task-twice": Preceded(
        (Before(("WorkStarted", "WorkStopped"), ("group", "work"), 4), GROUP),
        "a worker runs on what the group has given to another one",
        ("WorkStarted",),
    ),
    "mirror-replay": Preceded(
        (MIRRORED, Before(("WorkStarted",), ("node",), 2), *HOST_RECORDS),
        "{node} knows no later source offset",
    ),
    "tasks-uneven": Preceded(
        (Before(("WorkAssigned",), ("group",), 6), GROUP),
        "no rebalance follows that takes from {node} what it has above its share",
    ),
    **dict.fromkeys(
        ("mirror-gap", "mirror-disorder", "skipped-at-failover", "internal-mirrored"),
        Preceded((MIRRORED, *HOST_RECORDS)),
    ),
    "EXCL": Preceded(
        (Before(("GroupAssigned",), ("group", "generation"), 6), GROUP,
         Before(("PartitionOwner",), COMMITTED, 4), Before(("ZooKeeperConnection",), ("node",), 3)),
        "a partition has a new owner while another member has it",
    ),
    "OFFSET": Preceded(
        (Before(("OffsetCommitted",), COMMITTED), Before(("CoordinatorLoaded",), ("node",))),
        "{node} did not have the commit when it loaded the group", ("CoordinatorLoaded",),
    ),
    **dict.fromkeys(("offset-regression", "reordered-commit"), Preceded(
        (Before(("OffsetCommitted",), COMMITTED), GROUP, Before(("Positioned",), ("group",))),
        "the committed offset is lower than before",
    )),
    **dict.fromkeys(("poll-skip", "nonmonotonic-poll"), Preceded(
        (Before(("Polled", "Positioned"), (*PLACE, "group", "member_id")), CHANGES,
         Before(("Truncated", "LogStart", "ReadReplica"), PLACE, 2)),
        "{node} kept the partition, but skipped or repeated offsets",
    )),
    "lost-to-retention": Preceded(
        (Before(("Polled",), (*PLACE, "group")), Before(("LogStart",))),
        "{node} continued at offset {offset}; the records below the log start, which the group had"
        " not read, were deleted",
    ),
    "needless-reset": Preceded(
        (Before(("Polled", "ReadReplica"), (*PLACE, "group"), 2), Before(("BecameLeader",)),
         Before(("Truncated", "LogLoaded"))),
        "{node} continued at offset {offset}, although nothing was lost there",
    ),
    "handover-redelivery": Preceded(
        (Before(("CommitResult",), (*PLACE, "node")), Before(("Polled",), (*PLACE, "node"), 2)),
        "poll() returned records of a partition whose offset was being committed",
    ),
    "application-failed": Preceded(
        (Before(("SendFailed", "ConsumerRevoked"), ("node",), 3),),
        "nothing in the application handles this exception",
    ),
    "needless-epoch": Preceded(
        (Before(("TransactionState",), ("transactional_id",), 3),),
        "the epoch rose by more than one fence and one end of a transaction need",
    ),
    "zombie-producer": Preceded(
        (Before(("TransactionBegun", "TransactionEnding", "TransactionState"),
                ("transactional_id",), 6),),
        "two producers used one transactional id at the same time",
    ),
}  # fmt: skip
"""What is explained by the facts before the finding's row."""


# --------------------------------------------------------------------------------- replicas


def elected_without(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how a committed record went that a new leader has not (ACKED)."""
    seq = found["seq"]
    chain = loss(facts, key, exposed_before(facts, key, seq), until=seq)
    chain.add(facts.row(seq))
    return chain


def lost_write(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how an acknowledged record went."""
    return loss(facts, key, found["offset"], record_id=found["record_id"])


def mismatch(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how two replicas came to differ at a place where they must agree (MATCH)."""
    row = facts.row(found["seq"])
    chain = REPLICA_HISTORY.chain(facts, row)
    before = [c.gained for c in copies(facts, key, row["next_offset"] - 1)]
    chain.add(*[each for each in before if each["seq"] < row["seq"]][-2:])
    begun = facts.last(["PartitionChanged"], key, before=row["seq"])
    node, epoch = row["node"], row["leader_epoch"]
    if begun is not None and epoch < begun["leader_epoch"]:
        chain.turns(
            row,
            f"{node} fetched in leader epoch {epoch} although leader epoch {begun['leader_epoch']}"
            " had begun, so it has not compared its log with that of the new leader",
        )
    else:
        chain.conclusion = (
            f"{node} went on, although below offset {row['base_offset']} its log differs from the"
            " leader's"
        )
    return chain


def two_values(facts: Facts, key: Key, found: Found) -> Chain:
    """Return both reads of one offset, and how the first record went."""
    chain = Chain()
    row = facts.row(found["seq"])
    polls = facts.rows(["Polled"], key, before=row["seq"] + 1)
    values: dict[int, dict[int, Row]] = {}  # offset: value: the first poll of it
    for poll in polls:
        for offset, value in zip(poll["offsets"], poll["record_ids"], strict=True):
            values.setdefault(offset, {}).setdefault(value, poll)
    offset = next((each for each in row["offsets"] if len(values[each]) > 1), row["offsets"][-1])
    if len(values[offset]) < 2:
        chain.add(row, facts.last(["HighWatermark"], key, before=row["seq"]))
        chain.turns(row, f"offset {offset} was not committed when it was read")
        return chain
    record_id, first = next(iter(values[offset].items()))
    chain.join(loss(facts, key, offset, record_id=record_id))
    chain.add(*values[offset].values())
    written = facts.last(["Appended"], key, before=first["seq"],
                         where=lambda each: record_id in each["record_ids"])  # fmt: skip
    epoch = -1 if written is None else written["leader_epoch"]
    exposed = facts.first(["HighWatermark"], key, leader_epoch=epoch,
                          where=lambda each: bool(each["high_watermark"] > offset))  # fmt: skip
    if exposed is None:
        chain.turns(first, f"{first['node']} read {record(record_id)}, which was never committed")
    return chain


# ----------------------------------------------------------------------- records of producers


def appended_twice(facts: Facts, key: Key, found: Found) -> Chain:
    """Return both appends of a record, and what its producer was told in between."""
    chain = Chain()
    record_id = found["record_id"]
    kinds = ["Appended", "Acked", "SendFailed", "SequencesRewritten"]
    rows = facts.rows(kinds, key, where=lambda row: record_id in row["record_ids"])
    chain.add(*rows)
    appended = [row for row in rows if row["kind"] == "Appended"]
    if len(appended) > 1:
        first, last = appended[0], appended[-1]
        between = {"after": first["seq"], "before": last["seq"]}
        chain.add(*facts.rows(["PartitionChanged", "BecameLeader", "Truncated"], key, **between))
        columns = ("producer_id", "producer_epoch", "base_sequence")
        same = all(first[name] == last[name] for name in columns) and last["producer_id"] >= 0
        chain.turns(
            last,
            f"{last['node']} no longer knew the sequence of the batch, or did not compare it"
            if same
            else "the producer sent it again in a new batch, so the leader saw no duplicate",
        )
    return chain


def batch_twice(facts: Facts, key: Key, found: Found) -> Chain:
    """Return both appends of a batch (NODUP)."""
    row = facts.row(found["seq"])
    return appended_twice(facts, key, {**found, "record_id": (*row["record_ids"], -1)[0]})


def sends_out_of_order(facts: Facts, key: Key, found: Found) -> Chain:
    """Return two acknowledged sends of one producer whose offsets do not rise with its records."""
    chain = Chain()
    row = facts.row(found["seq"])
    same = {"node": row["node"], "producer_id": row["producer_id"], "before": row["seq"]}
    before = facts.last(["Acked"], key, where=lambda each: each["base_offset"] >= 0, **same)
    chain.add(before, row)
    if before is not None:
        if row["base_offset"] <= before["base_offset"]:
            gone = before["record_ids"][0]
            chain.join(loss(facts, key, before["base_offset"], record_id=gone))
        firsts = (before["record_ids"][0], row["record_ids"][0])
        chain.add(*facts.rows(["Appended"], key,
                              where=lambda each: each["record_ids"][:1] and
                              each["record_ids"][0] in firsts))  # fmt: skip
    if chain.turn < 0:
        chain.turns(row, f"{row['node']} sent the later record again after the earlier one")
    return chain


def key_overtaken(facts: Facts, key: Key, found: Found) -> Chain:
    """Return the first append of a record that stands behind a later one of its key."""
    chain = Chain()
    record_id = found["record_id"]
    sent = facts.first(["KeySent"], record_id=record_id)
    written = facts.first(["Appended"], key, where=lambda row: record_id in row["record_ids"])
    chain.add(sent, written)
    if sent is not None and written is not None:
        between = {"after": sent["seq"], "before": written["seq"]}
        later = facts.rows(["KeySent"], after=sent["seq"], since=sent["since"],
                           where=lambda row: bool(row["key"] == sent["key"]))  # fmt: skip
        ids = [row["record_id"] for row in later]
        ahead = facts.rows(["Appended"], key, before=written["seq"],
                           where=lambda row: not {*ids}.isdisjoint(row["record_ids"]))  # fmt: skip
        chain.add(*ahead[:1])
        chain.add(*facts.rows(["PartitionChanged", "BecameLeader"], key, **between)[-4:])
        chain.turns(written, f"{sent['node']} sent the earlier batch again, after a later one")
    return chain


# ------------------------------------------------------------------------- records in groups


def delivery(facts: Facts, key: Key, found: Found) -> Chain:
    """Return who got a record, what became of it, and how its group came past it."""
    chain = Chain()
    offset, group, name = found["offset"], found["group"], found["name"]
    of = {"group": group, "topic": facts.topics.get(key[0], ""), "partition": key[1]}

    def is_past(row: Row) -> bool:
        return bool(row["offset"] > offset)

    def covers(row: Row) -> bool:
        return bool(row["base_offset"] <= offset < row["offset"])

    polls = facts.rows(["Polled"], key, group=group, where=lambda row: offset in row["offsets"])
    past = facts.first(["OffsetCommitted"], where=is_past, **of)
    until = polls[1]["seq"] if len(polls) > 1 else END
    chain.add(*polls[:3], *facts.rows(["Processed"], key, group=group, where=covers)[:2])
    for poll in polls[:1]:
        between = {"after": poll["seq"], "before": until}
        chain.add(*facts.rows([*FATES, "ConsumerRevoked"], node=poll["node"], **between)[:2])
        chain.add(*facts.rows(["GroupState"], group=group, **between)[-3:])
    if len(polls) > 1 and name == "duplicate":
        _again(facts, key, chain, polls[1], of)
        return chain
    results = facts.last(["FinalResults"], key, group=group)
    if results is not None and name.endswith("-result"):
        count = results["offsets"].count(offset)
        chain.turns(results, f"the database of group {group} has {count} results of it")
        return chain
    jump = facts.first(["Positioned"], key, group=group, where=is_past)
    if jump is None:
        jump = facts.first(["Polled"], key, group=group, where=lambda row: row["position"] > offset)
    chain.add(past, jump)
    if not polls:
        at = facts.rows(["Appended", "Acked"], key,
                        where=lambda row: found["record_id"] in row["record_ids"])  # fmt: skip
        chain.add(*at)
        chain.turns(jump or past, f"no member of group {group} ever polled offset {offset}")
    elif name == "lost-output":
        sent = facts.rows(["OutputSent"], key, group=group, offset=offset)[-2:]
        chain.add(*sent)
        lost = found["text"] if sent else "the group committed past it, and no output can be read"
        chain.turns(past, lost)
    else:
        who = polls[-1]["node"]
        chain.turns(past, f"the commit covers offset {offset}, which {who} had not processed")
    return chain


def _again(facts: Facts, key: Key, chain: Chain, second: Row, of: Mapping[str, Any]) -> None:
    """Add from where a member got a record again."""
    same = {"group": second["group"], "member_id": second["member_id"], "before": second["seq"]}
    position = facts.last(["Positioned"], key, **same)
    before = int((position or second)["seq"])
    chain.add(facts.last(["OffsetCommitted"], before=before, **of))
    if position is None:
        chain.turns(second, f"{second['node']} got it again")
    elif position["reason"] == "committed":
        chain.turns(position, "it had been delivered, and the group's commit was not past it")
    else:
        at = f"{second['node']} went back to offset {position['offset']}"
        chain.turns(position, f"{at}: {why(position)}")


def duplicate(facts: Facts, key: Key, found: Found) -> Chain:
    """Return both appends of a record, or both deliveries of an offset and what lay between."""
    return (delivery if found["group"] else appended_twice)(facts, key, found)


def audited(facts: Facts, _key: Key, found: Found) -> Chain:
    """Return the first window of a group whose monitoring events do not agree."""
    chain = Chain()
    for row in facts.rows(["AuditPublished"], group=found["group"]):
        same = {name: row[name] for name in ("group", "topic", "source", "window")}
        counted = facts.rows(["AuditCounted"], **same)
        if sum(each["records"] for each in counted) != row["records"]:
            chain.add(*counted[-4:])
            chain.turns(row, found["text"])
            break
    return chain


def share_record(facts: Facts, key: Key, found: Found) -> Chain:
    """Return to whom a share group handed a record, what became of it, and who led meanwhile."""
    offset, of = found["offset"], {"group": found["group"], "before": found["seq"] + 1}

    def is_of_it(row: Row) -> bool:
        if row["kind"] == "ShareAcknowledged":
            return offset in row["offsets"]
        return bool(row["first_offset"] <= offset <= row["last_offset"])

    chain = Chain()
    kinds = ["ShareAcquired", "ShareMoved", "ShareAcknowledged"]
    chain.add(*facts.rows(kinds, key, where=is_of_it, **of))
    chain.add(*facts.rows(["SharePartitionLoaded", "SharePartitionClosed"], key, **of))
    chain.add(facts.first(["ShareStartMoved"], key,
                          where=lambda row: bool(row["start_offset"] > offset), **of))  # fmt: skip
    chain.turns(facts.row(found["seq"]), found["text"])
    return chain


DONE_AGAIN = Preceded(
    (Before(("TaskState", "TaskCommitted"), TASK, 4), Before(HOST, (), 2), GROUP),
    "{node} goes on at the last commit: what the task did after it is done again",
)


def output(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how an output came twice: of a task of Kafka Streams, who processed it again."""
    if found["record_id"] < 0 <= found["seq"]:
        return DONE_AGAIN.chain(facts, facts.row(found["seq"]))
    return transactions.duplicate_output(facts, key, found)


OfFinding = Callable[[Facts, Key, Found], Chain]

CHAINS: Mapping[str, OfFinding] = {
    "ACKED": elected_without,
    "ISRDATA": missing_member,
    "MATCH": mismatch,
    "NODUP": batch_twice,
    "STABLEREAD": two_values,
    "LATEST": compaction.removed,
    "HORIZON": compaction.kept,
    "lost-write": lost_write,
    "inconsistent-offsets": two_values,
    "duplicate": duplicate,
    "idempotent-duplicate": duplicate,
    "nonmonotonic-send": sends_out_of_order,
    "reordered-key": key_overtaken,
    "lost-deletion": compaction.lost_deletion,
    **dict.fromkeys(("audit-missing", "audit-surplus"), audited),
    **dict.fromkeys(
        ("unseen", "skipped-by-commit", "lost-result", "duplicate-result", "lost-output"), delivery
    ),
    "aborted-read": transactions.aborted_read,
    "precommitted-read": transactions.precommitted_read,
    "torn-transaction": transactions.torn,
    "hanging-transaction": transactions.hanging,
    "duplicate-output": output,
    **dict.fromkeys(
        ("accepted-again", "held-twice", "over-delivered", "share-skipped"), share_record
    ),
}
"""The chains of what is explained by more than the facts before its row."""


def chain_of(facts: Facts, found: Found) -> Chain:
    """Return the chain of a finding; without one of its own, the history of its replica."""
    name, key, seq = found["name"], (found["topic_id"], found["partition"]), found["seq"]
    if name in CHAINS:
        return CHAINS[name](facts, key, found)
    if not 0 <= seq < facts.manifest["rows"]:
        return Chain()
    history = REPLICA_HISTORY if key[1] >= 0 else HOST_HISTORY
    return PRECEDED.get(name, history).chain(facts, facts.row(seq))
