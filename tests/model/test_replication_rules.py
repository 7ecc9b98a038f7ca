"""Rules that Kafka got wrong once: each override brings its fault back in a small schedule."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.effects import Response
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.files import ReadError
from kafkasim.model.storage.rules import StorageRules
from kafkasim.scenarios.variants.bugs.truncation import StaleHighWatermarkPosition
from tests.model.replica_harness import TOPIC_ID, TP, Trio, registration
from tests.model.test_fetcher import written
from tests.model.test_partition_leader import fetch
from tests.model.test_replication_roles import send

RULES = ReplicationRules


class AnyEpoch(StorageRules):
    """Without KAFKA-18723: a follower's log takes batches of any leader epoch."""

    def follower_accepts(self, batch_epoch: int, leader_epoch: int) -> bool:
        return True


def with_records(rules: ReplicationRules, count: int = 2, **settings: Any) -> Trio:
    trio = Trio(rules, **settings)
    trio.tell()
    trio.settle()
    for record in range(count):
        trio.produce(1, record)
        trio.settle()
    return trio


def test_a_failed_read_tells_nothing_of_the_follower() -> None:  # B12, KAFKA-8400
    class B12(ReplicationRules):
        def offset_after_failed_read(self) -> int | None:
            return -1

    known = {}
    for rules in (RULES(), B12()):
        trio = with_records(rules)
        trio.produce(1, 7, acks=1)
        log = trio.nodes[1].partition.log

        def fail(*_args: Any) -> Any:
            raise ReadError("t-0", "bad sector")

        object.__setattr__(log, "read", fail)
        assert fetch(trio, 1, offset=2, last=1) is Errors.KAFKA_STORAGE_ERROR
        known[type(rules).__name__] = trio.nodes[1].leader.remotes[2].leo
    assert known == {"ReplicationRules": 2, "B12": -1}


def test_a_session_fences_by_the_epoch_it_was_opened_with() -> None:  # B13, KAFKA-9338
    class B13(ReplicationRules):
        def session_keeps_epoch(self) -> bool:
            return False

    kept = {}
    for rules in (RULES(), B13()):
        trio = with_records(rules, inter_broker_protocol_version="2.6")
        trio.elect(1)
        trio.tell(1)  # follower 3 has not heard of epoch 2
        trio.produce(1, 9, acks=1)
        trio.settle()
        kept[type(rules).__name__] = len(trio.log(3))
    assert kept == {"ReplicationRules": 2, "B13": 2}  # KAFKA-18723
    trio = with_records(B13(), storage=AnyEpoch(), inter_broker_protocol_version="2.6")
    trio.elect(1)
    trio.tell(1)
    trio.produce(1, 9, acks=1)
    trio.settle()
    assert len(trio.log(3)) == 3


def test_a_reply_is_not_used_once_its_partition_has_left() -> None:  # B14, KAFKA-13207
    class B14(ReplicationRules):
        def uses_reply_of_removed(self) -> bool:
            return True

    kept = {}
    for rules in (RULES(), B14()):
        trio = with_records(rules)
        fetcher = trio.nodes[3].replicas.fetchers.threads[(1, 0)]
        fetcher.states.fetching["other"] = None  # type: ignore[index,assignment]  # it outlives the move
        key = next(k for k in trio.requests if k[0] == 3 and trio.targets[k] == 1)
        correlation = next(iter(fetcher.leader.channel.in_flight))
        trio.elect(3)
        trio.tell(3)
        del fetcher.states.fetching["other"]  # type: ignore[arg-type]
        trio.produce(3, 5, acks=1)
        answer = FetchPartitionResponse(TP, NONE, 2, 2, 0, (), (1, 1))
        trio.nodes[3].handle(
            Response(key[1], correlation, FetchResponse(NONE, (answer,))), trio.now
        )
        kept[type(rules).__name__] = [value for _, _, value in trio.log(3)]
    assert kept == {"ReplicationRules": [0, 1, 5], "B14": [0]}


def test_a_consumer_is_bounded_by_the_high_watermark_of_now() -> None:  # B16, KAFKA-9835
    class B16(ReplicationRules):
        def consumer_bound(self, log: Any, isolation_level: int) -> int:
            if log.segments[-1].base_offset == log.high_watermark:
                return int(log.log_end_offset)  # the cached position is in the segment before
            return super().consumer_bound(log, isolation_level)

    read = {}
    for rules in (RULES(), B16()):
        trio = with_records(rules)
        log = trio.nodes[1].partition.log
        assert log.high_watermark == log.log_end_offset == 2
        log.roll(2)
        trio.produce(1, 7, acks=1)
        read[type(rules).__name__] = fetch(trio, 1, replica=-1, offset=2)
    assert read == {"ReplicationRules": 0, "B16": 1}


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize(
    ("rules", "exposed"), [(RULES(), []), (StaleHighWatermarkPosition(), [7])], ids=["kafka", "B16"]
)
def test_a_parked_consumer_has_the_bound_of_every_other_read(
    rules: ReplicationRules, exposed: list[int], isolation_level: int
) -> None:
    """B16 of the catalogue: the fetch is parked, then the log rolls at the high watermark."""
    trio = with_records(rules)
    asked = FetchPartition(TP, TOPIC_ID, 2, -1, 1, -1, 1 << 20)
    call = send(trio, 1, FetchRequest(-1, -1, 500, 1, 1 << 20, isolation_level, (asked,)))
    trio.nodes[1].partition.log.roll(2)
    trio.produce(1, 7, acks=1)  # nobody has fetched it: the high watermark stays
    assert call not in trio.answers
    trio.advance(500_000)
    found = trio.answers[call].partitions[0]
    assert found.high_watermark == 2
    assert [record.value for batch in found.batches for record in batch.records] == exposed


@pytest.mark.parametrize(
    ("rules", "answered"), [(RULES(), False), (StaleHighWatermarkPosition(), True)]
)
def test_what_a_parked_consumer_waits_for_has_that_bound_too(
    rules: ReplicationRules, answered: bool
) -> None:
    """B16 counts what lies beyond the high watermark towards min_bytes."""
    trio = with_records(rules)
    asked = FetchPartition(TP, TOPIC_ID, 2, -1, 1, -1, 1 << 20)
    call = send(trio, 1, FetchRequest(-1, -1, 500, 100, 1 << 20, 0, (asked,)))
    trio.nodes[1].partition.log.roll(2)
    for value in (7, 8):
        trio.produce(1, value, acks=1)
    trio.nodes[1].partition.delayed.high_watermark_changed(trio.now)
    trio.drain(1)
    assert (call in trio.answers) is answered


def test_a_stalled_send_carries_what_stands_there_by_then() -> None:  # B83, KAFKA-18723
    class B83(ReplicationRules):
        def fetch_send_delay_us(self, broker_id: int) -> int:
            return 1000

    trio = Trio(B83())
    trio.tell(1)
    trio.produce(1, 7, acks=1)
    trio.tell(3)
    key = next(k for k in trio.requests if k[0] == 3)
    trio.deliver(key)
    assert not trio.replies[key]
    log = trio.nodes[1].partition.log
    log.truncate_to(0)
    log.append_as_follower((written(0, 2, 99),))
    trio.advance(1000)
    (reply,) = trio.replies[key]
    assert [(b.leader_epoch, b.records[0].value) for b in reply.message.partitions[0].batches] == [
        (2, 99)
    ]
    trio.registration = registration(1, 1, 0)
    trio.deliver(key)
    assert trio.log(3) == []  # epoch 2 is above the epoch of the fetch (KAFKA-18723)


def test_isr_members_carry_their_incarnations() -> None:  # B25, KIP-903
    class B25(ReplicationRules):
        def isr_member_epoch(self, broker_epoch: int) -> int:
            return -1

    named = {}
    for rules in (RULES(), B25()):
        trio = Trio(rules)
        trio.registration = registration(1, 1, 0, isr=(1,))
        trio.tell()
        trio.settle()
        (request, _), *_ = trio.nodes[1].link.queue
        named[type(rules).__name__] = request.partitions[0].new_isr
    assert named == {"ReplicationRules": ((1, 1), (2, 2)), "B25": ((1, 1), (2, -1))}
