"""murmur2 against the vectors of Kafka's own tests and against kafka-python; the sticky choice."""

from __future__ import annotations

import random

import pytest
from kafka.partitioner.default import murmur2 as oracle

from kafkasim.model.client.producer.partitioner import StickyPartitioner, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_kafkas_vectors(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed


def test_murmur2_agrees_with_kafka_python() -> None:
    rng = random.Random(3)
    keys = [rng.randbytes(rng.randrange(40)) for _ in range(500)]
    assert [murmur2(k) & 0xFFFFFFFF for k in keys] == [oracle(k) & 0xFFFFFFFF for k in keys]


def test_a_key_always_goes_to_one_partition() -> None:
    assert [partition_for_key(b"foobar", n) for n in (1, 6, 50)] == [
        (murmur2(b"foobar") & 0x7FFFFFFF) % n for n in (1, 6, 50)
    ]


def test_sticky_leaves_at_a_batch_boundary_or_at_twice_the_size() -> None:
    sticky = StickyPartitioner(100, random.Random(1))
    first = sticky.choose([0, 1], [0, 0])
    sticky.appended(99, True)
    assert sticky.partition == first
    sticky.appended(1, False)
    assert sticky.partition == first
    sticky.appended(100, False)
    assert sticky.partition == -1


def test_sticky_prefers_short_queues() -> None:
    sticky = StickyPartitioner(100, random.Random(1))
    chosen = [sticky.choose([0, 1], [9, 0]) for _ in range(1100)]
    assert 50 < chosen.count(0) < 150  # 1 : 10
