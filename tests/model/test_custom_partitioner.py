"""Partitioners of older clients, RoundRobinPartitioner and custom ones (KIP-480, KAFKA-9965)."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from kafkasim.model.client.producer.partitioner import (
    DefaultPartitioner,
    RoundRobinPartitioner,
    partition_for_key,
)
from kafkasim.model.config import ConfigError, ProducerConfig
from kafkasim.model.config.clients import ROUND_ROBIN
from kafkasim.model.errors import NONE
from kafkasim.model.messages import ProducePartitionResponse, ProduceRequest, ProduceResponse
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.variants.releases import Client28, Client39
from tests.model.client_harness import Cluster, Harness


def producer(partitions: int, rules: Any = None, **settings: Any) -> Harness:
    cluster = Cluster(partitions)
    cluster.handlers[ProduceRequest] = lambda _n, m: ProduceResponse(
        tuple(ProducePartitionResponse(p.tp, NONE, 0, -1, -1) for p in m.partitions)
    )
    return Harness(ProducerConfig(**settings), cluster, rules)


def sent(h: Harness, count: int, partition: Any = None) -> list[int]:
    """Send records one by one; return the partitions in the order of the records."""
    for value in range(count):
        h.call("send", "t", f"k{value}", value, 10, partition, False)
        h.run(30)
    found = {
        record.value: part.tp.partition
        for request in h.cluster.requests(ProduceRequest)
        for part in request.partitions
        for record in part.batch.records
    }
    return [found[value] for value in range(count)]


def test_records_go_to_the_partitions_in_turn_whatever_their_keys() -> None:
    h = producer(3, partitioner_class=ROUND_ROBIN)
    assert sent(h, 5) == [0, 1, 2, 0, 1]


def test_a_new_batch_made_the_partitioner_of_3_9_skip_a_partition() -> None:
    """KAFKA-9965: abortForNewBatch asks again, and the counter goes on; 4.0 asks once."""
    assert sent(producer(2, Client39(), partitioner_class=ROUND_ROBIN), 4) == [1, 1, 1, 1]
    assert sent(producer(2, partitioner_class=ROUND_ROBIN), 4) == [0, 1, 0, 1]


def test_a_producer_of_2_8_leaves_a_partition_with_each_batch() -> None:
    """KIP-480: one record a batch changes the partition each time; KIP-794 waits for its bytes."""
    h = producer(3, Client28())
    for value in range(6):
        h.call("send", "t", None, value, 10, None, False)
        h.run(30)
    tps = [p.tp.partition for m in h.cluster.requests(ProduceRequest) for p in m.partitions]
    assert len(tps) == 6
    assert all(one != following for one, following in itertools.pairwise(tps))


def test_a_producer_of_2_8_sticks_while_its_batch_takes_records() -> None:
    h = producer(3, Client28(), linger_ms=20)
    for value in range(6):
        h.call("send", "t", None, value, 10, None, False)
    h.run(100)
    (request,) = h.cluster.requests(ProduceRequest)
    assert [len(p.batch.records) for p in request.partitions] == [6]


def test_keys_decide_in_2_8_also_and_move_the_sticky_partition_when_they_open_its_batch() -> None:
    choose = DefaultPartitioner(random.Random(1))
    assert choose(b"21", range(3), range(3)) == partition_for_key(b"21", 3)
    sticky = choose(None, range(3), range(3))
    choose.on_new_batch((sticky + 1) % 3, range(3), range(3))
    assert choose(None, range(3), range(3)) == sticky
    choose.on_new_batch(sticky, range(3), range(3))
    assert choose(None, range(3), range(3)) != sticky


def test_2_8_stays_on_the_only_partition_that_has_a_leader() -> None:
    choose = DefaultPartitioner(random.Random(1))
    for _ in range(5):
        assert choose(None, range(3), [2]) == 2
        choose.on_new_batch(2, range(3), [2])


def test_partitions_without_a_leader_are_passed_over_unless_none_has_one() -> None:
    choose = RoundRobinPartitioner()
    assert [choose(None, range(3), [0, 2]) for _ in range(3)] == [0, 2, 0]
    assert [choose(None, range(3), []) for _ in range(3)] == [0, 1, 2]


def test_a_custom_partitioner_sees_the_key_and_is_asked_once_for_a_send_that_waits() -> None:
    asked: list[tuple[Any, ...]] = []

    def last(key: bytes | None, every: Any, available: Any) -> int:
        asked.append((key, list(every), list(available)))
        return int(every[-1])

    h = producer(2, buffer_memory=20_000, linger_ms=100)
    h.call("send", "t", None, 0, 10, 0, False)
    h.call("send", "t", b"k", 1, 10, last, False)  # waits for memory
    h.run(500)
    tps = [p.tp for m in h.cluster.requests(ProduceRequest) for p in m.partitions]
    assert tps == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert asked == [(b"k", [0, 1], [0, 1])]


def test_another_class_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"partitioner\.class"):
        ProducerConfig.from_properties({"partitioner.class": "org.acme.Mine"})
