"""Records of internal topics as Kafka's bytes, so that its formatters read them.

``__consumer_offsets`` has committed offsets (OffsetCommitKey 1, OffsetCommitValue 3) and classic
groups (GroupMetadataKey 2, GroupMetadataValue 3); ``__transaction_state`` has transactional ids
(TransactionLogKey 0, TransactionLogValue 0). Left out: records of the consumer and share groups of
KIP-848 and KIP-932, whose text stands in for them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kafkasim.model.group.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkasim.model.messages.clients.groups import user_data_of
from kafkasim.model.transaction.metadata import TxnTransitMetadata
from kafkasim.model.transaction.records import TransactionLogKey
from kafkasim.model.transaction.states import TransactionState

LOCAL_HOST = "/127.0.0.1"
"""What groups say of the host of a client."""

_STATES = tuple(TransactionState)
"""In the order of their numbers (TransactionState.id)."""


def _string(text: str | None) -> bytes:
    data = b"" if text is None else text.encode()
    return struct.pack(">h", -1 if text is None else len(data)) + data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _offset_key(key: OffsetCommitKey) -> bytes:
    where = _string(key.group) + _string(key.topic) + struct.pack(">i", key.partition)
    return struct.pack(">h", 1) + where


def _offset(value: OffsetCommitValue) -> bytes:
    head = struct.pack(">hqi", 3, value.offset, value.leader_epoch)
    return head + _string(value.metadata) + struct.pack(">q", value.commit_timestamp_ms)


def _group_key(key: GroupMetadataKey) -> bytes:
    return struct.pack(">h", 2) + _string(key.group)


def _group(value: GroupMetadataValue) -> bytes:
    head = struct.pack(">h", 3) + _string(value.protocol_type or "")
    head += struct.pack(">i", value.generation) + _string(value.protocol) + _string(value.leader)
    head += struct.pack(">qi", value.current_state_timestamp_ms, len(value.members))
    return head + b"".join([_member(each) for each in value.members])


def _member(member: MemberMetadata) -> bytes:
    """Return a member; of simulated members neither subscription nor assignment has bytes."""
    told, given = member.subscription.user_data, user_data_of(member.assignment)
    who = [member.member_id, member.instance_id, member.client_id, LOCAL_HOST]
    return (
        b"".join([_string(each) for each in who])
        + struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms)
        + _bytes(told if isinstance(told, bytes) else b"")
        + _bytes(given if isinstance(given, bytes) else b"")
    )


def _transaction_key(key: TransactionLogKey) -> bytes:
    return struct.pack(">h", 0) + _string(key.transactional_id)


def _transaction(value: TxnTransitMetadata) -> bytes:
    head = struct.pack(
        ">hqhib", 0, value.producer_id, value.producer_epoch, value.txn_timeout_ms,
        _STATES.index(value.state),
    )  # fmt: skip
    topics: dict[str, list[int]] = {}
    for tp in value.partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    head += struct.pack(">i", len(topics) or -1)  # null without partitions
    for topic, numbers in topics.items():
        head += _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return head + struct.pack(">qq", value.last_update_timestamp_ms, value.start_timestamp_ms)


KAFKAS_BYTES: dict[type, Callable[[Any], bytes]] = {
    OffsetCommitKey: _offset_key,
    OffsetCommitValue: _offset,
    GroupMetadataKey: _group_key,
    GroupMetadataValue: _group,
    TransactionLogKey: _transaction_key,
    TxnTransitMetadata: _transaction,
}
"""By the type of a key or a value."""
