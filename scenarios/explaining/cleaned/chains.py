"""The chains of what log cleaners have removed, and of what they have kept."""

from __future__ import annotations

from typing import Any

from kafkasim.scenarios.explaining.chain import Chain
from kafkasim.scenarios.explaining.cleaned.history import Compacted, history, removes
from kafkasim.scenarios.explaining.facts import Facts, Key
from kafkasim.scenarios.showing.state import Row

Found = dict[str, Any]


def record(facts: Facts, key: Key, offset: int) -> Chain | None:
    """Return what became of the record at an offset, None if no compacted topic had it."""
    log = Compacted(facts, key)
    asked = log.records.get(offset)
    if asked is None:
        return None
    chain = history(log, offset)
    if not chain.rows:
        chain.add(*log.meetings(asked)[-1:])
        chain.turns(asked.row, f"no log cleaner has removed {asked}")
    return chain


def removed(facts: Facts, key: Key, row: Row) -> Chain:
    """Return how a record went that had to stay (LATEST)."""
    log = Compacted(facts, key, row["seq"] + 1)
    marks = facts.rows(["HighWatermark"], key, before=row["seq"])
    exposed = max([mark["high_watermark"] for mark in marks], default=0)
    for offset, gone in log.records.items():
        if not removes(row, offset) or log.is_aborted(gone):
            continue
        standing = log.stands_for(gone, row)
        if standing is None or standing.offset >= exposed:
            chain = history(log, offset)
            behind = "" if standing is None else f", but the high watermark was {exposed}"
            chain.turns(row, chain.conclusion + behind)
            return chain
    chain = Chain()
    chain.turns(row, "a marker that was removed had not reached its delete horizon")
    return chain


def kept(facts: Facts, key: Key, row: Row) -> Chain:
    """Return a deletion that a cleaning left in the log, and who met it before (HORIZON)."""
    chain = Chain()
    log = Compacted(facts, key, row["seq"] + 1)
    for deletion in [each for each in log.records.values() if each.deletes]:
        everywhere = log.meetings(deletion)
        met = [each for each in everywhere if each["node"] == row["node"]]
        if row["seq"] != (met[-1]["seq"] if met else -1) or deletion.offset >= row["mapped_offset"]:
            continue
        late_ms = row["began_ms"] - met[0]["began_ms"] - met[0]["delete_retention_ms"]
        if late_ms >= 0 and not any(removes(each, deletion.offset) for each in everywhere):
            chain.add(deletion.row, met[0])
            chain.turns(
                row,
                f"this cleaning began {late_ms} ms behind the delete horizon of {deletion}, and"
                " left it in the log",
            )
            return chain
    chain.turns(row, "")
    return chain


def lost_deletion(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how a tombstone came and went before a group got there."""
    poll, offset, group = facts.row(found["seq"]), found["offset"], found["group"]
    log = Compacted(facts, key, poll["seq"])
    chain = history(log, offset)
    chain.add(_value_read(facts, key, log, poll, offset), poll)
    passed = f"group {group} has the value, and passed offset {offset}"
    chain.conclusion = f"{chain.conclusion}; {passed}"
    return chain


def missed_deletion(facts: Facts, at_us: int) -> Chain:
    """Return how a group passed the place of a tombstone that was gone (an observation)."""
    for poll in facts.rows(["Polled"], t_us=at_us):
        key = (poll["topic_id"], poll["partition"])
        same = {"group": poll["group"], "member_id": poll["member_id"]}
        before = facts.last(["Polled", "Positioned"], key, before=poll["seq"], **same)
        if before is None or not poll["offsets"]:
            continue
        since = before["position" if before["kind"] == "Polled" else "offset"]
        log = Compacted(facts, key, poll["seq"])
        for offset in range(since, poll["offsets"][-1]):
            passed = log.records.get(offset)
            if offset in poll["offsets"] or passed is None or not passed.deletes:
                continue
            if _value_read(facts, key, log, poll, offset) is not None:
                found = {"seq": poll["seq"], "offset": offset, "group": poll["group"]}
                return lost_deletion(facts, key, found)
    return Chain()


def _value_read(facts: Facts, key: Key, log: Compacted, poll: Row, offset: int) -> Row | None:
    """Return the poll in which a group got the value of a key that was deleted at an offset."""
    name = log.records[offset].name
    values = [
        each.offset
        for each in log.records.values()
        if each.name == name and each.offset < offset and not each.deletes
    ]
    return facts.last(
        ["Polled"], key, before=poll["seq"] + 1, group=poll["group"],
        where=lambda row: any(value in row["offsets"] for value in values),
    )  # fmt: skip
