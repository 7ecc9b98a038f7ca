"""The chains of anomalies of clients and groups: records read twice, never, or out of order.

``Found`` is a judge's finding about the first occurrence of an anomaly, from the run's manifest.
"""

from __future__ import annotations

from typing import Any

from kafkasim.analysis.explain.chain import Chain, Found
from kafkasim.analysis.explain.facts import END, Facts, Key
from kafkasim.analysis.explain.loss import loss
from kafkasim.analysis.story.reasons import why
from kafkasim.model.facts.names import record
from kafkasim.sim.trace.reading import Row

FATES = ("HostStopped", "HostPaused", "ApplicationFailed")


def lost_write(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how an acknowledged record went."""
    return loss(facts, key, found["offset"], record_id=found["record_id"])


def duplicate(facts: Facts, key: Key, found: Found) -> Chain:
    """Return both appends of a record, or both deliveries of an offset and what lay between."""
    if not found["group"]:
        return _appended_twice(facts, key, found)
    chain = Chain()
    offset, group = found["offset"], found["group"]
    polls = facts.rows(["Polled"], key, group=group, where=lambda row: offset in row["offsets"])
    if len(polls) < 2:
        return chain
    first, second = polls[0], polls[1]
    chain.add(first, second, *_fate(facts, first, second["seq"]))
    chain.add(*_rebalance(facts, group, first["seq"], second["seq"]))
    position = facts.last(["Positioned"], key, group=group, member_id=second["member_id"],
                          before=second["seq"])  # fmt: skip
    chain.add(_committed_before(facts, key, group, position or second))
    if position is None:
        chain.turns(second, f"{second['node']} got offset {offset} again")
    elif position["reason"] == "committed":
        chain.turns(
            position,
            f"offset {offset} had been delivered, and the group's commit was not past it",
        )
    else:
        chain.turns(
            position,
            f"{second['node']} went back to offset {position['offset']}: {why(position)}",
        )
    return chain


def _appended_twice(facts: Facts, key: Key, found: Found) -> Chain:
    chain = Chain()
    record_id = found["record_id"]
    appended = facts.rows(["Appended"], key, where=lambda row: record_id in row["record_ids"])
    told = ["Acked", "SendFailed", "SequencesRewritten"]
    answers = facts.rows(told, key, where=lambda row: record_id in row["record_ids"])
    chain.add(*appended, *answers)
    if len(appended) > 1:
        between = {"after": appended[0]["seq"], "before": appended[-1]["seq"]}
        chain.add(*facts.rows(["PartitionChanged", "BecameLeader"], key, **between))
        first, last = appended[0], appended[-1]
        keys = ("producer_id", "producer_epoch", "base_sequence")
        same = all(first[name] == last[name] for name in keys) and last["producer_id"] >= 0
        why = (
            "the leader appended the batch again, although it has the sequence of the first"
            if same
            else "the producer sent it again in a new batch, so the leader saw no duplicate"
        )
        chain.turns(last, why)
    return chain


def uncovered(facts: Facts, key: Key, found: Found) -> Chain:
    """Return what a member got behind its commit before a rebalance, and what it revoked then."""
    chain = Chain()
    revoked = facts.row(found["seq"])
    of_member = {"node": revoked["node"], "before": revoked["seq"]}
    commit = facts.last(["CommitResult"], key, revoking=True, error="NONE", **of_member)
    chain.add(commit, *facts.rows(["Polled"], key, **of_member)[-2:], revoked)
    chain.turns(revoked, "poll() returned records of a partition whose offset was being committed")
    return chain


def unseen(facts: Facts, key: Key, found: Found) -> Chain:
    """Return where a record lies in the log, and how its readers came past it."""
    chain = Chain()
    offset, group = found["offset"], found["group"]
    chain.add(
        facts.first(["Appended"], key, where=lambda r: found["record_id"] in r["record_ids"]),
        facts.first(["Acked"], key, where=lambda r: found["record_id"] in r["record_ids"]),
    )
    polls = facts.rows(["Polled"], key, group=group, where=lambda row: bool(row["offsets"]))
    below = [row for row in polls if row["offsets"][-1] < offset]
    above = [row for row in polls if row["offsets"][0] > offset]
    chain.add(*below[-1:], *above[:1])
    placed = facts.rows(
        ["Positioned"], key, group=group, where=lambda row: bool(row["offset"] > offset)
    )
    jump = placed[0] if placed else (above[0] if above else None)
    if jump is not None:
        chain.add(_committed_before(facts, key, group, jump))
        chain.add(*_rebalance(facts, group, jump["seq"] - 4000, jump["seq"])[-3:])
    text = (
        f"no member of group {group} reached offset {offset}"
        if jump is None
        else f"{jump['node']} went past offset {offset}"
    )
    chain.turns(jump or (below[-1] if below else None), text)
    return chain


def overtaken(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how far a group had read when retention passed it, and where it went on."""
    chain = Chain()
    reset = facts.row(found["seq"])
    before = reset["seq"]
    chain.add(
        facts.last(["Polled"], key, group=found["group"], before=before),
        facts.last(["LogStart"], key, before=before, where=lambda r: r["offset"] > found["offset"]),
        reset,
    )
    chain.turns(
        reset,
        f"{reset['node']} continued at offset {reset['offset']}; the records below the log"
        " start, which the group had not read, were deleted",
    )
    return chain


def moved(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how far a group had read when a reset moved it, and who led or stopped before."""
    chain = Chain()
    reset = facts.row(found["seq"])
    before = reset["seq"]
    chain.add(
        facts.last(["Polled"], key, group=found["group"], before=before),
        facts.last(["ReadReplica"], key, group=found["group"], before=before),
        facts.last(["BecameLeader"], key, before=before),
        facts.last(["Truncated", "LogLoaded"], key, before=before),
        reset,
    )
    chain.turns(reset, f"{found['detail']}, although nothing was lost there")
    return chain


def audited(facts: Facts, _key: Key, found: Found) -> Chain:
    """Return the monitoring events of a group's windows, and what it counted of the first odd one.

    The records themselves have the chains of lost-write and duplicate.
    """
    chain = Chain()
    counted: dict[tuple[Any, ...], int] = {}
    for row in facts.rows(["AuditCounted"], group=found["group"]):
        place = (row["topic"], row["source"], row["window"])
        counted[place] = counted.get(place, 0) + row["records"]
    for row in facts.rows(["AuditPublished"], group=found["group"]):
        place = (row["topic"], row["source"], row["window"])
        if counted.get(place, 0) != row["records"]:
            topic, source, window = place
            same = {"topic": topic, "source": source, "window": window}
            chain.add(*facts.rows(["AuditCounted"], group=found["group"], **same)[-4:])
            chain.turns(row, found["text"])
            break
    return chain


def result(facts: Facts, key: Key, found: Found) -> Chain:
    """Return who got a record, what was processed of it, and what ended that process."""
    chain = Chain()
    offset, group = found["offset"], found["group"]
    polls = facts.rows(["Polled"], key, group=group, where=lambda row: offset in row["offsets"])
    chain.add(*polls)
    chain.add(
        *facts.rows(
            ["Processed"], key, group=group,
            where=lambda row: row["base_offset"] <= offset < row["offset"],
        )
    )  # fmt: skip
    for node in dict.fromkeys(poll["node"] for poll in polls):
        chain.add(*facts.rows(["HostStopped"], node=node, after=polls[0]["seq"]))
    results = facts.rows(["FinalResults"], key, group=group)
    has = sum(row["offsets"].count(offset) for row in results)
    chain.turns(
        results[-1] if results else None,
        f"the database of group {group} has {has} results of offset {offset}",
    )
    return chain


def reader_order(facts: Facts, key: Key, found: Found) -> Chain:
    """Return the poll that did not continue where the one before had ended."""
    chain = Chain()
    row = facts.row(found["seq"])
    same = {"group": row["group"], "member_id": row["member_id"]}
    before = facts.last(["Polled", "Positioned"], key, before=row["seq"], **same)
    since = -1 if before is None else before["seq"]
    between = {"after": since, "before": row["seq"]}
    chain.add(before, row)
    kinds = ["PartitionChanged", "Truncated", "LogStart", "ReadReplica"]
    chain.add(*facts.rows(kinds, key, **between)[-4:])
    chain.turns(row, f"{row['node']} kept the partition, but skipped or repeated offsets")
    return chain


def two_values(facts: Facts, key: Key, found: Found) -> Chain:
    """Return both reads of one offset, and how the first record went."""
    chain = Chain()
    row = facts.row(found["seq"])
    offset = found.get("offset", -1)
    if offset < 0:
        offset = _unstable(facts, key, row)
    polls = facts.rows(["Polled"], key, where=lambda each: offset in each["offsets"])
    values = {each["record_ids"][each["offsets"].index(offset)]: each for each in reversed(polls)}
    if len(values) < 2:
        chain.add(row, facts.last(["HighWatermark"], key, before=row["seq"]))
        chain.turns(row, f"offset {row['offsets'][-1]} was not committed when it was read")
        return chain
    first = min(values.values(), key=lambda each: int(each["seq"]))
    record_id = first["record_ids"][first["offsets"].index(offset)]
    chain.join(loss(facts, key, offset, record_id=record_id))
    chain.add(*values.values())
    written = facts.last(
        ["Appended"], key, before=first["seq"], where=lambda each: record_id in each["record_ids"]
    )
    epoch = -1 if written is None else written["leader_epoch"]
    exposed = facts.first(
        ["HighWatermark"], key, leader_epoch=epoch,
        where=lambda each: bool(each["high_watermark"] > offset),
    )  # fmt: skip
    if exposed is None:
        chain.turns(first, f"{first['node']} read {record(record_id)}, which was never committed")
    return chain


def _unstable(facts: Facts, key: Key, row: Row) -> int:
    """Return the first offset of a poll that another poll read with another value."""
    polls = facts.rows(["Polled"], key, before=row["seq"])
    for offset, record_id in zip(row["offsets"], row["record_ids"]):
        for each in polls:
            if offset in each["offsets"]:
                if each["record_ids"][each["offsets"].index(offset)] != record_id:
                    return int(offset)
    return int(row["offsets"][-1])


def sends_out_of_order(facts: Facts, key: Key, found: Found) -> Chain:
    """Return two acknowledged sends of one producer whose offsets do not rise with its records."""
    chain = Chain()
    row = facts.row(found["seq"])
    same = {"node": row["node"], "producer_id": row["producer_id"]}
    before = facts.last(
        ["Acked"], key, before=row["seq"], where=lambda each: each["base_offset"] >= 0, **same
    )
    chain.add(before, row)
    if before is not None:
        gone = loss(facts, key, before["base_offset"], record_id=before["record_ids"][0])
        if row["base_offset"] <= before["base_offset"]:
            chain.join(gone)
        ids = [*before["record_ids"], *row["record_ids"]]
        chain.add(*facts.rows(["Appended"], key, where=lambda r: r["record_ids"][:1] and
                              r["record_ids"][0] in ids))  # fmt: skip
    if chain.turn < 0:
        chain.turns(row, f"{row['node']} sent the later record again after the earlier one")
    return chain


def key_overtaken(facts: Facts, key: Key, found: Found) -> Chain:
    """Return the first append of a record that stands behind a later one, and that one's."""
    chain = Chain()
    sent = facts.first(["KeySent"], where=lambda row: row["record_id"] == found["record_id"])
    assert sent is not None, found
    of_key = facts.rows(
        ["KeySent"], after=sent["seq"], since=sent["since"],
        where=lambda row: bool(row["key"] == sent["key"]),
    )  # fmt: skip
    later = {row["record_id"]: row for row in of_key}
    written = facts.first(
        ["Appended"], key, where=lambda row: found["record_id"] in row["record_ids"]
    )
    chain.add(sent, written)
    if written is not None:
        ahead = facts.rows(
            ["Appended"], key, before=written["seq"],
            where=lambda row: any(each in later for each in row["record_ids"]),
        )  # fmt: skip
        chain.add(*ahead[:1])
        for row in ahead[:1]:
            chain.add(*[later[each] for each in row["record_ids"] if each in later][:1])
        between = {"after": sent["seq"], "before": written["seq"]}
        chain.add(*facts.rows(["PartitionChanged", "BecameLeader"], key, **between)[-4:])
        chain.turns(written, f"{sent['node']} sent the earlier batch again, after a later one")
    return chain


def commit_back(facts: Facts, key: Key, found: Found) -> Chain:
    """Return two commits of a group of which the later one is lower."""
    chain = Chain()
    row = facts.row(found["seq"])
    same = {"group": row["group"], "topic": row["topic"], "partition": row["partition"]}
    before = facts.last(
        ["OffsetCommitted"], before=row["seq"], where=lambda r: bool(r["offset"] > row["offset"]),
        **same,
    )  # fmt: skip
    chain.add(before, row)
    since = -1 if before is None else before["seq"]
    chain.add(*_rebalance(facts, row["group"], since, row["seq"])[-4:])
    chain.add(*facts.rows(["Positioned"], key, group=row["group"], before=row["seq"])[-1:])
    text = "the committed offset is lower than before"
    if before is not None and before["generation"] != row["generation"]:
        text = (
            f"a commit of generation {row['generation']} replaced one of generation"
            f" {before['generation']}"
        )
    chain.turns(row, text)
    return chain


def skipped(facts: Facts, key: Key, found: Found) -> Chain:
    """Return who had polled a record, that nobody processed it, and who committed past it."""
    chain = Chain()
    offset, group = found["offset"], found["group"]
    topic = facts.topics.get(key[0], "")
    commit = facts.first(
        ["OffsetCommitted"], where=lambda row: bool(row["offset"] > offset),
        group=group, topic=topic, partition=key[1],
    )  # fmt: skip
    polls = facts.rows(["Polled"], key, group=group, where=lambda row: offset in row["offsets"])
    chain.add(*polls, commit)
    for row in polls:
        chain.add(*_fate(facts, row, END)[:1])
    later = facts.first(
        ["Positioned"], key, group=group, after=-1 if commit is None else commit["seq"],
        where=lambda row: bool(row["offset"] > offset),
    )  # fmt: skip
    chain.add(later)
    if not polls:
        placed = facts.first(
            ["Positioned"], key, group=group, where=lambda row: bool(row["offset"] > offset)
        )
        chain.turns(placed or commit, f"no member of group {group} ever polled offset {offset}")
        return chain
    chain.turns(
        commit,
        f"the commit covers offset {offset}, which {polls[-1]['node']} had polled and had not"
        " processed",
    )
    return chain


def older_offset(facts: Facts, _key: Key, row: Row) -> Chain:
    """Return the commit that was promised, and the coordinator that answers with an older one."""
    chain = Chain()
    same = {"group": row["group"], "topic": row["topic"], "partition": row["partition"]}
    promised = facts.last(
        ["OffsetCommitted"], before=row["seq"], where=lambda r: bool(r["offset"] > row["offset"]),
        **same,
    )  # fmt: skip
    chain.add(promised, row)
    loaded = facts.last(["CoordinatorLoaded"], node=row["node"], before=row["seq"], loaded=True)
    for topic_id in facts.topic_ids("__consumer_offsets")[:1]:
        number = -1 if loaded is None else loaded["partition"]
        of = (topic_id, number)
        since = -1 if promised is None else promised["seq"]
        kinds = ["PartitionChanged", "BecameLeader", "Truncated"]
        chain.add(*facts.rows(kinds, of, after=since, before=row["seq"]))
    chain.turns(loaded or row, f"{row['node']} did not have the commit when it loaded the group")
    return chain


def two_owners(facts: Facts, key: Key, row: Row) -> Chain:
    """Return the assignments that name a partition twice.

    They are of one generation; in a consumer group (KIP-848), which has no leader, of any two. A
    group of old consumers has claims and releases in their place.
    """
    if row["kind"] != "GroupAssigned":
        return _owners_in_zookeeper(facts, key, row)
    chain = Chain()
    group, named = row["group"], row["assignment"]
    state = facts.last(["GroupState"], group=group, before=row["seq"])
    if state is not None and not state["group_leader"]:
        earlier = facts.rows(["GroupAssigned"], group=group, before=row["seq"])
        owners = [r for r in earlier if not set(named).isdisjoint(r["assignment"])]
        chain.add(*[r for r in owners if r["member_id"] != row["member_id"]][-1:], state, row)
        chain.turns(row, "the coordinator gave a partition to a member while another one has it")
        return chain
    same = {"group": group, "generation": row["generation"]}
    chain.add(*facts.rows(["GroupAssigned"], before=row["seq"] + 1, **same))
    chain.add(state)
    chain.turns(row, "the leader of the group gave a partition to two members")
    return chain


def _owners_in_zookeeper(facts: Facts, key: Key, row: Row) -> Chain:
    """Return who has claimed and released a partition, and what became of their sessions."""
    chain = Chain()
    topic, group = facts.topics.get(key[0], ""), row["group"]
    owners = facts.rows(
        ["PartitionOwner"], before=row["seq"], group=group, topic=topic, partition=key[1]
    )
    chain.add(*owners[-4:])
    since = owners[-4:][0]["seq"] if owners else -1
    chain.add(*facts.rows(["ZooKeeperConnection"], node=row["node"], after=since,
                          before=row["seq"])[-3:])  # fmt: skip
    chain.turns(row, "no coordinator stops an old consumer that uses another one's partition")
    return chain


def application(facts: Facts, _key: Key, found: Found) -> Chain:
    """Return the exception of an application, and what had struck its host."""
    chain = Chain()
    row = facts.row(found["seq"])
    chain.add(*facts.rows(["SendFailed", "ConsumerRevoked"], node=row["node"],
                          before=row["seq"])[-3:])  # fmt: skip
    chain.turns(row, "nothing in the application handles this exception")
    return chain


# ------------------------------------------------------------------------------- what lies between


def _fate(facts: Facts, poll: Row, until: int) -> list[Row]:
    """Return how a member lost what it had polled: it stopped, stood still, or was revoked."""
    between = {"node": poll["node"], "after": poll["seq"], "before": until}
    rows = facts.rows([*FATES, "ConsumerRevoked"], **between)
    return rows[:2]


def _rebalance(facts: Facts, group: str, after: int, before: int) -> list[Row]:
    """Return the rebalances of a group and the changes of its coordinator between two rows."""
    rows = facts.rows(["GroupState"], group=group, after=after, before=before)
    return [row for row in rows if row["state"] in ("PreparingRebalance", "Empty", "Stable")][-4:]


def _committed_before(facts: Facts, key: Key, group: str, row: Row) -> Row | None:
    topic = facts.topics.get(key[0], "")
    return facts.last(
        ["OffsetCommitted"], group=group, topic=topic, partition=key[1], before=row["seq"]
    )
