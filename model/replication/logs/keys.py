"""What a leader tells of the keys in a compacted topic: the judges of cleanings need them."""

from __future__ import annotations

from kafkasim.model.facts import KeysAppended
from kafkasim.model.records import RecordBatch, has_value, offsets_of


def keys_appended(topic_id: str, partition: int, batch: RecordBatch) -> KeysAppended:
    """Return the keys and the tombstones of a batch that a leader appends."""
    return KeysAppended(
        topic_id,
        partition,
        batch.leader_epoch,
        batch.base_offset,
        tuple([str(record.key) for record in batch.records]),
        tuple(
            [
                offset
                for offset, record in zip(offsets_of(batch), batch.records, strict=True)
                if not has_value(record)
            ]
        ),
    )
