"""The history of a record of a compacted topic: append, removal, later record of its key."""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.scenarios.explaining.chain import Chain
from kafkasim.scenarios.explaining.facts import END, Facts, Key
from kafkasim.scenarios.showing.state import Row


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
