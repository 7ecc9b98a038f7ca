"""The chains of records that log cleaners have removed or kept."""

from __future__ import annotations

from typing import Any

from kafkasim.scenarios.explaining.chain import Chain
from kafkasim.scenarios.explaining.cleaned.history import Compacted, history
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


def removed(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how a record went that had to stay (LATEST)."""
    row, offset = facts.row(found["seq"]), found["offset"]
    log = Compacted(facts, key, row["seq"] + 1)
    gone = log.records.get(offset)
    if gone is None:
        chain = Chain()
        chain.turns(row, "a marker that was removed had not reached its delete horizon")
        return chain
    chain = history(log, offset)
    marks = facts.rows(["HighWatermark"], key, before=row["seq"])
    exposed = max([mark["high_watermark"] for mark in marks], default=0)
    standing = log.stands_for(gone, row)
    above = standing is not None and standing.offset >= exposed
    chain.turns(row, chain.conclusion + above * f", but the high watermark was {exposed}")
    return chain


def kept(facts: Facts, key: Key, found: Found) -> Chain:
    """Return a deletion that a cleaning left in the log, and who met it before (HORIZON)."""
    row, offset = facts.row(found["seq"]), found["offset"]
    deletion = Compacted(facts, key, row["seq"] + 1).records[offset]
    again = facts.last(
        ["Appended", "Replicated", "LogLoaded"], key, before=row["seq"],
        where=lambda each: each["node"] == row["node"]
        and (each["kind"] == "LogLoaded" or each["base_offset"] <= offset),
    )  # fmt: skip
    since = -1 if again is None else again["seq"]
    met = facts.rows(
        ["Cleaned"], key, before=row["seq"] + 1,
        where=lambda each: each["base_offset"] <= offset < each["next_offset"],
    )  # fmt: skip
    first = next(each for each in met if each["node"] == row["node"] and each["seq"] > since)
    latest = max(
        [each for each in met if each["seq"] <= first["seq"]],
        key=lambda each: int(each["began_ms"] + each["delete_retention_ms"]),
    )
    late_ms = row["began_ms"] - latest["began_ms"] - latest["delete_retention_ms"]
    chain = Chain()
    chain.add(deletion.row, latest, first)
    chain.turns(
        row,
        f"this cleaning began {late_ms} ms after the delete horizon of {deletion}, and kept it",
    )
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
