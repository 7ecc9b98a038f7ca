"""Records of internal topics as Kafka's bytes; Kafka's formatters read them in make clients."""

from __future__ import annotations

import struct

from kafkasim.model.group.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkasim.model.messages import Subscription
from kafkasim.model.records import Record, TopicPartition, batch_of
from kafkasim.model.transaction.metadata import TxnTransitMetadata
from kafkasim.model.transaction.records import TransactionLogKey
from kafkasim.model.transaction.states import PREPARE_COMMIT
from kafkasim.scenarios.wire.records import encoded
from tests.scenarios.wire.batches import read


def _read(key: object, value: object) -> tuple[bytes | None, bytes | None]:
    """Return key and value of a record as kafka-python's consumer reads them."""
    ((_, _, data_key, data_value, _),) = read(encoded(batch_of((Record(key, value, 50, 7),))))
    return data_key, data_value


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def test_a_committed_offset_and_its_tombstone() -> None:
    key = OffsetCommitKey("billing", "orders", 3)
    wanted = b"\0\1" + _text("billing") + _text("orders") + b"\0\0\0\3"
    value = struct.pack(">hqi", 3, 41, -1) + _text("note") + struct.pack(">q", 1234)
    assert _read(key, OffsetCommitValue(41, -1, "note", 1234)) == (wanted, value)
    assert _read(key, None) == (wanted, None)


def test_a_classic_group_with_a_member() -> None:
    told = Subscription((), user_data=b"told")
    member = MemberMetadata("m-1", None, "app", 300_000, 45_000, told, ())
    group = GroupMetadataValue("consumer", 2, "range", "m-1", 99, (member,))
    head = b"\0\3" + _text("consumer") + b"\0\0\0\2" + _text("range") + _text("m-1")
    head += struct.pack(">qi", 99, 1)
    who = _text("m-1") + b"\xff\xff" + _text("app") + _text("/127.0.0.1")
    wanted = head + who + struct.pack(">ii", 300_000, 45_000) + b"\0\0\0\4told" + b"\0\0\0\0"
    assert _read(GroupMetadataKey("billing"), group) == (b"\0\2" + _text("billing"), wanted)


def test_a_transactional_id() -> None:
    partitions = (TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("a", 2))
    state = TxnTransitMetadata(7, -1, -1, 5, 4, 60_000, PREPARE_COMMIT, partitions, 10, 11, 0)
    wanted = struct.pack(">hqhibi", 0, 7, 5, 60_000, 2, 2)
    wanted += _text("a") + struct.pack(">iii", 2, 0, 2) + _text("b") + struct.pack(">ii", 1, 1)
    wanted += struct.pack(">qq", 11, 10)
    assert _read(TransactionLogKey("pay"), state) == (b"\0\0" + _text("pay"), wanted)
