"""What share fetches brought, until the application has acknowledged it.

Models ShareCompletedFetch, ShareFetchCollector, ShareInFlightBatch and ShareFetch. A response
carries whole record batches, and which offsets of them the member holds. Offsets that it holds and
that have no record, or a control record, are acknowledged as gaps.

Left out: records that cannot be deserialized, and corrupt batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasim.model.messages.share import GAP, AcquiredRecords
from kafkasim.model.records import RecordBatch, offsets_of

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.share.acknowledgements import (
        Acknowledgements,
        ByPartition,
        TopicIdPartition,
    )
    from kafkasim.model.errors import Errors
    from kafkasim.model.messages.share import SharePartitionResponse

ShareRecord: TypeAlias = tuple[int, Any, Any, int, int]
"""Offset, record id, key, timestamp in ms, delivery count."""


class ShareCompletedFetch:
    """One partition's part of a response: the records that the member holds."""

    __slots__ = ("_at", "_ends", "_held", "_records", "error", "key", "node_id")

    def __init__(self, node_id: int, answer: SharePartitionResponse) -> None:
        self.node_id = node_id
        self.key: TopicIdPartition = (answer.topic_id, answer.tp)
        self.error: Errors = answer.error
        self._held = [pair for each in answer.acquired for pair in _offsets(each)]
        # Offset to (batch, id, key, timestamp) of every record that is data.
        self._records: dict[int, tuple[int, Any, Any, int]] = {}
        self._ends: dict[int, int] = {}  # base offset of a batch to the last record that it has
        for batch in answer.batches:
            if type(batch) is RecordBatch and not batch.control:
                for offset, each in zip(offsets_of(batch), batch.records, strict=True):
                    entry = (batch.base_offset, each.value, each.key, each.timestamp_ms)
                    self._records[offset] = entry
                    self._ends[batch.base_offset] = offset
        self._at = 0

    @property
    def consumed(self) -> bool:
        """Whether nothing is left of it."""
        return self._at >= len(self._held)

    def take(self, most: int) -> tuple[list[ShareRecord], list[int]]:
        """Return about ``most`` records, up to the last one of their batch, and the gaps before it.

        Gaps behind it are left for the next call (fetchRecords).
        """
        records: list[ShareRecord] = []
        gaps: list[int] = []
        end = -1
        while self._at < len(self._held):
            offset, count = self._held[self._at]
            if len(records) >= most and offset > end:
                break
            found = self._records.get(offset)
            if found is None:
                gaps.append(offset)
            else:
                batch, record_id, key, timestamp_ms = found
                end = self._ends[batch]
                records.append((offset, record_id, key, timestamp_ms, count))
            self._at += 1
        return records, gaps


def _offsets(acquired: AcquiredRecords) -> list[tuple[int, int]]:
    offsets = range(acquired.first_offset, acquired.last_offset + 1)
    return [(offset, acquired.delivery_count) for offset in offsets]


class InFlight:
    """The records that the application was given and that are not acknowledged yet (ShareFetch)."""

    __slots__ = ("_acknowledged", "_nodes", "_records")

    def __init__(self) -> None:
        self._records: dict[TopicIdPartition, dict[int, ShareRecord]] = {}
        self._acknowledged: ByPartition = {}
        self._nodes: dict[TopicIdPartition, int] = {}  # that gave the records

    def add(
        self, key: TopicIdPartition, node_id: int, records: list[ShareRecord], gaps: list[int]
    ) -> None:
        """Add what was taken of one partition.

        Of a second response for it, as after a change of leader, Kafka forgets the node and the
        gaps: what is acknowledged goes to the first node (ShareInFlightBatch.merge).
        """
        if key in self._nodes:
            self._records[key].update({record[0]: record for record in records})
            return
        self._nodes[key] = node_id
        self._records.setdefault(key, {}).update({record[0]: record for record in records})
        if gaps:
            self._acknowledged.setdefault(key, {}).update(dict.fromkeys(gaps, GAP))

    @property
    def is_empty(self) -> bool:
        """Whether the application holds no record."""
        return not any(self._records.values())

    def records(self) -> dict[TopicIdPartition, tuple[ShareRecord, ...]]:
        """Return the records by partition."""
        return {key: tuple(found.values()) for key, found in self._records.items() if found}

    def acknowledge(self, key: TopicIdPartition, offset: int, kind: int) -> bool:
        """Acknowledge a record; return whether the application holds it."""
        if offset not in self._records.get(key, {}):
            return False
        self._acknowledged.setdefault(key, {})[offset] = kind
        return True

    def acknowledge_all(self, kind: int) -> None:
        """Acknowledge all records that are not acknowledged yet."""
        for key, records in self._records.items():
            for offset in records:
                self._acknowledged.setdefault(key, {}).setdefault(offset, kind)

    def take_acknowledged(self) -> dict[int, ByPartition]:
        """Return the acknowledgements by the node that they go to; forget their records."""
        taken: dict[int, ByPartition] = {}
        for key, acknowledgements in self._acknowledged.items():
            records = self._records.get(key, {})
            for offset in acknowledgements:
                records.pop(offset, None)
            found: Acknowledgements = acknowledgements
            taken.setdefault(self._nodes[key], {})[key] = found
        self._acknowledged = {}
        return taken
