"""Hashing, record sizes and rules of the group coordinator."""

from __future__ import annotations

import pytest

from kafkasim.model.coordinator.hashing import java_string_hash, partition_for
from kafkasim.model.group.classic.group import ClassicGroupState
from kafkasim.model.group.records import OffsetCommitValue, group_record, offset_commit_record
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.records import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("😀", 1772899)],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_smallest_hash_counts_as_zero() -> None:
    assert [partition_for(g, 50) for g in ("polygenelubricants", "hello")] == [0, 22]


def test_records_have_kafkas_sizes() -> None:
    tp = TopicPartition("orders", 0)
    value = OffsetCommitValue(5, 3, "", 0)
    # varint lengths and attributes: 7 bytes; key 2+2+1+2+6+4, value 2+8+4+2+8
    assert offset_commit_record("g", tp, value, 0, 0).size == 7 + 17 + 24
    assert offset_commit_record("g", tp, None, 0, 0).size == 7 + 17
    assert group_record("g", None, 0, 0).size == 7 + 5


@pytest.mark.parametrize(
    ("state", "protocol_type", "subscribed", "expected"),
    [
        (ClassicGroupState.EMPTY, "consumer", False, True),
        (ClassicGroupState.STABLE, "consumer", False, True),
        (ClassicGroupState.STABLE, "consumer", True, False),
        (ClassicGroupState.STABLE, "connect", False, False),
        (ClassicGroupState.PREPARING_REBALANCE, "consumer", False, False),
        (ClassicGroupState.COMPLETING_REBALANCE, "consumer", False, False),
        (ClassicGroupState.EMPTY, None, False, True),
    ],
)
def test_which_offsets_may_expire(
    state: ClassicGroupState, protocol_type: str | None, subscribed: bool, expected: bool
) -> None:
    """B71, KAFKA-13636."""
    assert GroupRules().offsets_may_expire(state, protocol_type, subscribed) is expected


def test_parked_requests_keep_a_member_unless_it_is_new() -> None:
    expires = GroupRules().session_expires
    assert [expires(False, True, False), expires(False, False, True)] == [False, False]
    assert [expires(False, False, False), expires(True, True, False)] == [True, True]
