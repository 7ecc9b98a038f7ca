"""The chains of transactions: read too early or although aborted, torn, hanging, done twice."""

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
