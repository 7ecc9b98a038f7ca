"""The chains of records of compacted topics: which cleaning removed or kept one, and why.

LogCleaner.java, Cleaner.shouldRetainRecord (KAFKA.md, 5): a record goes when a later one of its key
is in the cleaning's map; a tombstone goes delete.retention.ms after the first cleaning that met it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.explain.chain import Chain, Found
from kafkasim.analysis.explain.facts import END, Facts, Key
from kafkasim.sim.trace.reading import Row


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


@dataclass(frozen=True)
class Keyed:
    """A record of a compacted topic, with the row that appended it."""

    offset: int
    name: str  # its key
    deletes: bool  # it is a tombstone
    row: Row

    def __str__(self) -> str:
        return f"the {'deletion' if self.deletes else 'value'} of {self.name} at {self.offset}"


def removes(row: Row, offset: int) -> bool:
    """Return whether a cleaning has removed the record at an offset."""
    ranges = row["removed"]
    return any(low <= offset < high for low, high in zip(ranges[::2], ranges[1::2], strict=True))


class Compacted:
    """What leaders have appended to a compacted partition before a row, and what was cleaned."""

    def __init__(self, facts: Facts, key: Key, before: int = END) -> None:
        """Read the facts of the partition."""
        self._cleanings = facts.rows(["Cleaned"], key, before=before)
        self.records = {
            offset: Keyed(offset, name, offset in row["tombstones"], row)
            for row in facts.rows(["KeysAppended"], key, before=before)
            for offset, name in enumerate(row["keys"], row["base_offset"])
        }
        """By offset; of two at one offset the later one"""
        self._producers = {
            (row["base_offset"], row["leader_epoch"]): row["producer_id"]
            for row in facts.rows(["Appended"], key)
        }
        self._markers = sorted(
            (row["offset"], row["producer_id"], row["committed"])
            for row in facts.rows(["MarkerWritten"], key)
        )

    def is_aborted(self, record: Keyed) -> bool:
        """Return whether the next marker of a record's producer has aborted it."""
        place = (record.row["base_offset"], record.row["leader_epoch"])
        producer = self._producers.get(place, -1)
        for offset, producer_id, committed in self._markers:
            if offset > record.offset and producer_id == producer:
                return not committed
        return False

    def meetings(self, record: Keyed) -> list[Row]:
        """Return the cleanings that copied or removed a record."""
        return [
            row
            for row in self._cleanings
            if row["seq"] > record.row["seq"]
            and row["base_offset"] <= record.offset < row["next_offset"]
        ]

    def stands_for(self, record: Keyed, cleaning: Row) -> Keyed | None:
        """Return the record for which a cleaning lets another one go: the last of its key that it
        has seen and that is not aborted. None: there is no later one."""
        later = [
            each
            for each in self.records.values()
            if each.name == record.name
            and record.offset < each.offset < cleaning["mapped_offset"]
            and not self.is_aborted(each)
        ]
        return max(later, key=lambda each: each.offset, default=None)

    def last(self, name: str) -> Keyed:
        """Return the last record of a key."""
        same = [each for each in self.records.values() if each.name == name]
        return max(same, key=lambda each: each.offset)


def history(log: Compacted, offset: int) -> Chain:
    """Return how a record was appended, which cleaning removed it first, and what stands for it.

    The chain is empty where no cleaner has removed the record.
    """
    chain = Chain()
    record = log.records.get(offset)
    met = [] if record is None else log.meetings(record)
    gone = next((row for row in met if removes(row, offset)), None)
    if record is None or gone is None:
        return chain
    others = [row for row in met if row["node"] != gone["node"] and removes(row, offset)]
    chain.add(record.row, met[0], *others[:2])
    standing = log.stands_for(record, gone)
    if log.is_aborted(record):
        why = "its transaction was aborted, so the first cleaning that reads it removes it"
    elif standing is not None:
        chain.add(standing.row)
        last = log.last(record.name)
        ends = "the last one of its key" if last == standing else f"and later {last}"
        why = f"{standing} replaces it, {ends}"
    elif record.deletes:
        why = (
            f"no later record of the key replaces it, and the cleaning began"
            f" {gone['began_ms'] - met[0]['began_ms']} ms after the first one that met it;"
            f" delete.retention.ms was {met[0]['delete_retention_ms']} ms"
        )
    else:
        why = (
            f"no later record of the key was below offset {gone['mapped_offset']}, the end of the"
            " cleaning's key map"
        )
    chain.turns(gone, f"{gone['node']} removed {record}: {why}")
    return chain
