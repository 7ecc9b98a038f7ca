"""The chains of transactions: aborted reads, early reads, torn or hanging transactions, inputs that
were processed twice or never; and a batch that overtook another one."""

from __future__ import annotations

from kafkasim.analysis.explain.chain import Chain, Found
from kafkasim.analysis.explain.facts import END, Facts, Key
from kafkasim.sim.trace.reading import Row

FATES = ("HostStopped", "HostPaused", "ApplicationFailed")


def aborted_read(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how a reader got a record of a transaction that did not commit."""
    chain = _of_record(facts, key, found)
    chain.turns(_read(facts, key, found), "a read_committed consumer got it nevertheless")
    return chain


def precommitted_read(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how a reader got a record before its transaction was decided."""
    chain = _of_record(facts, key, found)
    told = "a read_committed consumer got it before the coordinator had decided"
    chain.turns(_read(facts, key, found), told)
    return chain


def torn(facts: Facts, key: Key, found: Found) -> Chain:
    """Return a transaction of which a part is readable and a part is not."""
    chain = _of_record(facts, key, found)
    markers = [row for row in chain.rows.values() if row["kind"] == "MarkerWritten"]
    decisive = [row for row in markers if not row["committed"]] or markers
    told = "some of its records or offsets are committed, and some are not"
    chain.turns(decisive[-1] if decisive else None, told)
    return chain


def hanging(facts: Facts, key: Key, found: Found) -> Chain:
    """Return the append that opened a transaction in a partition, and why nobody ends it."""
    chain = _of_record(facts, key, found)
    appended = facts.last(["Appended"], key, where=lambda r: found["record_id"] in r["record_ids"])
    stays = "so the last stable offset stays here"
    if appended is None:
        chain.turns(None, f"no marker follows it, {stays}")
        return chain
    written = facts.rows(["MarkerWritten"], key, after=appended["seq"],
                         producer_id=appended["producer_id"])[:2]  # fmt: skip
    chain.add(*written)
    for marker in written:
        cut = facts.first(
            ["Truncated"],
            key,
            node=marker["node"],
            after=marker["seq"],
            where=lambda row, at=marker["offset"]: bool(row["offset"] <= at),
        )
        if cut is not None:
            between = {"after": marker["seq"], "before": cut["seq"]}
            chain.add(*facts.rows(["PartitionChanged", "BecameLeader"], key, **between)[:4])
            told = f"its marker at offset {marker['offset']} is cut, and no other follows, {stays}"
            chain.turns(cut, told)
            return chain
    chain.turns(appended, f"no marker follows it, {stays}")
    return chain


def zombie(facts: Facts, _key: Key, found: Found) -> Chain:
    """Return what two producers of one transactional id did at the same time."""
    chain = Chain()
    begun = facts.row(found["seq"]) if found["seq"] >= 0 else None
    if begun is None or "transactional_id" not in begun:
        return chain
    mine = {"transactional_id": begun["transactional_id"]}
    kinds = ["TransactionBegun", "TransactionEnding", "TransactionEnded", "TransactionState"]
    chain.add(*facts.rows(kinds, after=begun["seq"] - 1, **mine)[:12])
    others = facts.rows(["TransactionBegun"], before=begun["seq"], **mine)
    chain.add(*[row for row in others if row["node"] != begun["node"]][-1:])
    chain.turns(begun, "two producers used one transactional id at the same time")
    return chain


def needless_epoch(facts: Facts, _key: Key, found: Found) -> Chain:
    """Return what the coordinator told of an id before its epoch rose by too much."""
    chain = Chain()
    raised = facts.row(found["seq"])
    mine = {"transactional_id": raised["transactional_id"]}
    chain.add(*facts.rows(["TransactionState"], before=raised["seq"], **mine)[-3:], raised)
    chain.turns(raised, "the epoch rose by more than one fence and one end of a transaction need")
    return chain


def overtaken(facts: Facts, key: Key, row: Row) -> Chain:
    """Return how a batch got ahead of one that its leader had refused, and what became of both."""
    chain = Chain()
    mine = {"node": row["node"], "producer_id": row["producer_id"]}
    chain.add(*facts.rows(["BatchUnverified"], key, before=row["seq"], **mine)[-3:])
    chain.turns(row, "a lower sequence waits for its verification, and is out of order from now on")
    told = facts.rows(["SendFailed", "SequencesRewritten"], key, after=row["seq"])
    chain.add(*told[:2])
    return chain


def lost_output(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how a group committed past an input that it had written no output for."""
    chain = Chain()
    group, offset = found["group"], found["offset"]
    polls = facts.rows(["Polled"], key, group=group, where=lambda row: offset in row["offsets"])
    chain.add(*polls[:2])
    topic = facts.topics.get(key[0], "")
    past = facts.first(["OffsetCommitted"], group=group, topic=topic, partition=key[1],
                       where=lambda row: bool(row["offset"] > offset))  # fmt: skip
    if polls:
        chain.add(*_fates(facts, polls[0]["node"], polls[0]["seq"], END)[:1])
    chain.turns(past, "the group committed past it, and no output of it can be read")
    return chain


def duplicate_output(facts: Facts, key: Key, found: Found) -> Chain:
    """Return the appends of an output, with what lay between."""
    chain = Chain()
    record_id, topic_id = found["record_id"], key[0]
    appends = facts.rows(["Appended"], topic_id=topic_id,
                         where=lambda row: record_id in row["record_ids"])  # fmt: skip
    chain.add(*appends)
    if len(appends) > 1:
        first, last = appends[0], appends[-1]
        between = {"after": first["seq"], "before": last["seq"]}
        chain.add(*facts.rows(FATES, **between)[:2])
        chain.add(*facts.rows(["GroupState"], group=found["group"], **between)[-3:])
        chain.turns(last, "its input was processed again, and the first output was not undone")
    return chain


def _of_record(facts: Facts, key: Key, found: Found) -> Chain:
    """Return the life of the transaction that a record belongs to."""
    chain = Chain()
    there = key if key[1] >= 0 else None  # an output has the id of its input, sent elsewhere
    sent = facts.first(["TransactionSent"], there, record_id=found["record_id"])
    if sent is None:
        sent = facts.last(["TransactionOffsets"], group=found["group"])
    if sent is None:
        return chain
    mine = {"transactional_id": sent["transactional_id"]}
    same = {**mine, "number": sent["number"]}
    own = ["TransactionBegun", "TransactionEnding", "TransactionEnded"]
    node = sent["node"]
    chain.add(sent, *facts.rows(own, where=lambda row: row["node"] == node, **same))
    begun = facts.last(["TransactionBegun"], before=sent["seq"], **same)
    since = sent["seq"] if begun is None else begun["seq"]
    following = facts.first(["TransactionBegun"], after=sent["seq"], **mine)
    until = END if following is None else following["seq"]
    chain.add(*facts.rows(["TransactionState"], after=since, before=until, **mine))
    chain.add(*_fates(facts, node, since, until)[:2])
    if key[1] >= 0:
        record_id = found["record_id"]
        chain.add(facts.first(["Appended"], key, where=lambda row: record_id in row["record_ids"]))
        if begun is not None:
            within = {"after": since, "before": until, "producer_id": begun["producer_id"]}
            chain.add(*facts.rows(["MarkerWritten"], key, **within)[:3])
    return chain


def _fates(facts: Facts, node: str, after: int, before: int) -> list[Row]:
    """Return what happened to a host and its application."""
    return facts.rows(FATES, after=after, before=before, where=lambda row: row["node"] == node)


def _read(facts: Facts, key: Key, found: Found) -> Row | None:
    offset = found["offset"]
    return facts.first(["Polled"], key, after=found["seq"] - 1, group=found["group"],
                       where=lambda row: offset in row["offsets"])  # fmt: skip
