"""What completes a parked request, and what its answer tells of the leader."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
)
from kafkasim.model.records import Record, TopicPartition, batch_of
from tests.model.replica_harness import TOPIC_ID, TP, Trio, registration
from tests.model.test_replication_roles import begin, send


def consume(trio: Trio, offset: int, min_bytes: int, epoch: int = 1) -> int:
    """Send a consumer's fetch with a long wait to broker 1."""
    asked = FetchPartition(TP, TOPIC_ID, offset, -1, epoch, -1, 1 << 20)
    return send(trio, 1, FetchRequest(-1, -1, 10_000, min_bytes, 1 << 20, 0, (asked,)))


def answered(trio: Trio, call: int) -> Any:
    """The answer to a fetch: its error, or the values."""
    answer = trio.answers[call].partitions[0]
    if answer.error is not NONE:
        return answer.error
    return [record.value for batch in answer.batches for record in batch.records]


def rolled(trio: Trio) -> None:
    """Three committed records, a segment each."""
    for value in range(3):
        trio.produce(1, value)
        trio.settle()


def test_a_fetch_on_an_older_segment_waits_for_nothing_more() -> None:  # case F of DelayedFetch
    trio = Trio(log_segment_bytes=150)
    trio.tell()
    trio.settle()
    rolled(trio)
    assert len(trio.nodes[1].partition.log.segments) == 3
    assert answered(trio, consume(trio, 0, 10_000)) == [0]
    last = consume(trio, 2, 10_000)  # on the active one there may still come more
    assert last not in trio.answers
    trio.produce(1, 3)
    trio.settle()
    assert answered(trio, last) == [2]  # the roll has put it on an older one


def test_a_follower_on_an_older_segment_is_answered_too() -> None:
    trio = Trio(log_segment_bytes=150, replica_fetch_min_bytes=10_000)
    trio.tell(1)
    for value in range(3):
        trio.produce(1, value, acks=1)
    trio.tell(2)
    trio.settle()
    assert [value for _, _, value in trio.log(2)] == [0, 1]  # the third is on the active segment


def test_what_waits_is_refused_when_the_leadership_ends_while_it_settles_anew() -> None:
    trio = Trio()
    trio.tell()
    trio.settle()
    call = trio.produce(1, 7)
    assert call not in trio.answers
    trio.elect(1)  # again: the produce waits on
    begin(trio, 1)
    assert trio.nodes[1].replicas.locks.held
    trio.elect(2)
    begin(trio, 1)
    trio.drain(1)
    answer = trio.answers[call].partitions[0]
    assert answer.error is Errors.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader == (2, 3)  # KIP-951, in delayed answers too


def test_a_broker_that_does_not_host_names_the_leader_of_its_metadata() -> None:
    trio = Trio()
    trio.registration = registration(2, 4, 1, (2, 3), (2, 3))
    trio.tell(1)
    assert trio.nodes[1].replicas.partitions == {}
    call = trio.produce(1, 7)
    answer = trio.answers[call].partitions[0]
    assert (answer.error, answer.current_leader) == (Errors.NOT_LEADER_OR_FOLLOWER, (2, 4))
    fetched = trio.answers[consume(trio, 0, 1, 4)].partitions[0]
    assert (fetched.error, fetched.current_leader) == (Errors.NOT_LEADER_OR_FOLLOWER, (2, 4))


def test_the_log_start_has_the_epoch_that_it_was_written_in() -> None:
    trio = Trio()
    trio.tell()
    trio.settle()
    trio.produce(1, 7)
    trio.settle()
    trio.elect(1)
    trio.tell()
    asked = ListOffsetsPartition(TP, 2, EARLIEST_TIMESTAMP)
    found = trio.nodes[1].replicas.offsets.list_offset(ListOffsetsRequest(-1, 0, (asked,)), asked)
    assert (found.offset, found.leader_epoch) == (0, 1)


def test_a_client_appends_to_no_topic_of_a_coordinator() -> None:
    """ReplicaManager.appendToLocalLog; KafkaApis has looked into the metadata cache before."""
    trio = Trio()
    trio.tell()
    names = ("__consumer_offsets", "__transaction_state", "__of-a-user")
    data = [
        ProducePartition(TopicPartition(name, 0), batch_of((Record("k", 7, 50, 0),)))
        for name in names
    ]
    trio.nodes[1].known.update({data[0].tp: None, data[2].tp: None})
    call = send(trio, 1, ProduceRequest(1, 30000, tuple(data)))
    assert [each.error for each in trio.answers[call].partitions] == [
        Errors.INVALID_TOPIC_EXCEPTION,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_LEADER_OR_FOLLOWER,
    ]


def test_unknown_partitions_have_no_leader_to_name() -> None:
    trio = Trio()
    trio.tell()
    other = ProducePartition(TopicPartition("u", 0), batch_of((Record("k", 7, 50, 0),)))
    call = send(trio, 1, ProduceRequest(1, 30000, (other,)))
    answer = trio.answers[call].partitions[0]
    assert (answer.error, answer.current_leader) == (Errors.UNKNOWN_TOPIC_OR_PARTITION, None)
