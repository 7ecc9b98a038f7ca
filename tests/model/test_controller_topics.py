"""CreateTopics: what is written, and what is refused with which code."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.model.controller.common.topics import name_problem
from kafkasim.model.errors import Errors
from kafkasim.model.facts import PartitionChanged, TopicCreated
from kafkasim.model.messages import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkasim.model.values import random_uuid
from tests.model.controller_harness import Harness


@pytest.fixture
def h() -> Harness:
    return Harness(default_replication_factor=2, num_partitions=4).activate().up(1, 2, 3)


def create(h: Harness, *topics: CreatableTopic) -> Any:
    return h.ask(CreateTopicsRequest(topics, 1000))


def test_a_topic_is_created_with_its_settings(h: Harness) -> None:
    h.facts.clear()
    answer = create(h, CreatableTopic("t", 2, 3, (), (("min.insync.replicas", "2"),)))
    topic_id = h.controller.image.topic_names["t"]
    assert answer == CreateTopicsResponse((("t", Errors.NONE, ""),))
    created = h.facts_of(TopicCreated)[0]
    assert (created.topic, created.partitions, created.replication_factor, created.min_isr) == (
        "t",
        2,
        3,
        2,
    )
    changes = h.facts_of(PartitionChanged)
    assert [(f.topic_id, f.partition, f.leader_epoch, f.reason) for f in changes] == [
        (topic_id, 0, 0, "created"),
        (topic_id, 1, 0, "created"),
    ]
    assert [f.offset for f in changes] == [created.offset + 2, created.offset + 3]
    assert all(f.leader == f.replicas[0] and f.isr == f.replicas for f in changes)


def test_minus_one_takes_the_brokers_defaults(h: Harness) -> None:
    create(h, CreatableTopic("t", -1, -1))
    topic = h.controller.image.topic_by_name("t")
    assert topic is not None
    assert [len(p.replicas) for p in topic.partitions.values()] == [2, 2, 2, 2]


def test_a_fenced_replica_is_neither_leader_nor_in_sync(h: Harness) -> None:
    h.heartbeat(1, want_fence=True)
    topic = h.create("t", (1, 2, 3))
    assert h.partition(topic) == (2, 0, 0, (2, 3))


REFUSALS: dict[str, tuple[CreatableTopic, Errors]] = {
    "name": (CreatableTopic("a b", 0, 0), Errors.INVALID_TOPIC_EXCEPTION),
    "exists": (CreatableTopic("old", 0, 0), Errors.TOPIC_ALREADY_EXISTS),
    "config": (CreatableTopic("t", 0, 0, (), (("no.such", "1"),)), Errors.INVALID_CONFIG),
    "factor zero": (CreatableTopic("t", 0, 0), Errors.INVALID_REPLICATION_FACTOR),
    "partitions zero": (CreatableTopic("t", 0, 1), Errors.INVALID_PARTITIONS),
    "too many replicas": (CreatableTopic("t", 1, 4), Errors.INVALID_REPLICATION_FACTOR),
    "both": (CreatableTopic("t", -1, 1, ((1,),)), Errors.INVALID_REQUEST),
    "both, partitions": (CreatableTopic("t", 1, -1, ((1,),)), Errors.INVALID_REQUEST),
    "no replicas": (CreatableTopic("t", -1, -1, ((),)), Errors.INVALID_REPLICA_ASSIGNMENT),
    "twice": (CreatableTopic("t", -1, -1, ((1, 1),)), Errors.INVALID_REPLICA_ASSIGNMENT),
    "unknown": (CreatableTopic("t", -1, -1, ((1, 9),)), Errors.INVALID_REPLICA_ASSIGNMENT),
    "uneven": (CreatableTopic("t", -1, -1, ((1, 2), (1,))), Errors.INVALID_REPLICA_ASSIGNMENT),
}


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_a_topic_is_refused_in_kafkas_order(h: Harness, name: str) -> None:
    topic, error = REFUSALS[name]
    h.create("old", (1,))
    before = h.controller.image.offset
    results = create(h, topic).results
    assert [(each[0], each[1]) for each in results] == [(topic.topic, error)]
    assert results[0][2]
    assert h.controller.image.offset == before


def test_all_brokers_fenced_or_stopping_can_take_nothing(h: Harness) -> None:
    h.create("t", (1, 2), (3, 2))
    for broker_id in (2, 3):
        h.heartbeat(broker_id, want_fence=True)
    h.heartbeat(1, want_shut_down=True)
    placed = create(h, CreatableTopic("p", 1, 1)).results[0]
    assigned = create(h, CreatableTopic("a", -1, -1, ((1, 2),))).results[0]
    assert (placed[1], assigned[1]) == (
        Errors.INVALID_REPLICATION_FACTOR,
        Errors.INVALID_REPLICA_ASSIGNMENT,
    )


def test_one_bad_topic_leaves_the_others_alone(h: Harness) -> None:
    twice = CreatableTopic("twice", 1, 1)
    results = create(h, CreatableTopic("good", 1, 1), CreatableTopic("", 1, 1), twice, twice)
    assert [each[1] for each in results.results] == [
        Errors.NONE,
        Errors.INVALID_TOPIC_EXCEPTION,
        Errors.INVALID_REQUEST,
    ]
    assert list(h.controller.image.topic_names) == ["good"]


def test_a_name_that_collides_in_metrics_with_an_existing_one_is_refused(h: Harness) -> None:
    """Topic.hasCollision; names of one request do not count (validateNewTopicNames)."""
    pair = create(h, CreatableTopic("a.b", 1, 1), CreatableTopic("a_b", 1, 1))
    assert [each[1] for each in pair.results] == [Errors.NONE, Errors.NONE]
    later = create(h, CreatableTopic("a.b", 1, 1), CreatableTopic("c.d", 1, 1))
    assert [each[1] for each in later.results] == [Errors.TOPIC_ALREADY_EXISTS, Errors.NONE]
    refused = create(h, CreatableTopic("c_d", 1, 1), CreatableTopic("c-d", 1, 1))
    assert [each[1] for each in refused.results] == [Errors.INVALID_TOPIC_EXCEPTION, Errors.NONE]


def test_nobody_creates_the_metadata_topic(h: Harness) -> None:
    answer = create(h, CreatableTopic("__cluster_metadata", 1, 1))
    assert answer.results[0][1] is Errors.INVALID_REQUEST


@pytest.mark.parametrize(
    "topics",
    [
        [CreatableTopic("big", 2**31 - 1, 1)],
        [CreatableTopic("a", 9_997, 1), CreatableTopic("b", -1, -1)],
        [CreatableTopic("big", 10_000, 1)],  # with the topic's own record, one too many
        [CreatableTopic("big", 9_999, 1, (), (("min.insync.replicas", "1"),))],
    ],
)
def test_one_request_creates_at_most_one_batch_of_records(
    h: Harness, topics: list[CreatableTopic]
) -> None:  # KAFKA-17870; BoundedListTooLongException
    answer = create(h, *topics)
    assert [each[:2] for each in answer.results] == [
        (topic.topic, Errors.POLICY_VIOLATION) for topic in topics
    ]
    assert not h.controller.image.topic_names


def test_topics_that_are_named_twice_do_not_count(h: Harness) -> None:
    twice = CreatableTopic("twice", 2**31 - 1, 1)
    answer = create(h, twice, CreatableTopic("good", 1, 1), twice)
    assert [each[1] for each in answer.results] == [Errors.NONE, Errors.INVALID_REQUEST]


def test_a_topic_that_grows_beyond_one_batch_gets_what_fits_and_an_error(h: Harness) -> None:
    topic_id = h.create("t", (1,))
    h.create("u", (1,))
    grow = (CreatePartitionsTopic("t", 2**31 - 1), CreatePartitionsTopic("u", 2))
    answer = h.ask(CreatePartitionsRequest(grow))
    assert [each[:2] for each in answer.results] == [
        ("t", Errors.UNKNOWN_SERVER_ERROR), ("u", Errors.UNKNOWN_SERVER_ERROR),
    ]  # fmt: skip
    assert len(h.controller.image.topics[topic_id].partitions) == 10_001


def test_names_are_judged_as_kafka_does() -> None:
    legal = ["a", "a.b_c-9", "__consumer_offsets", "x" * 249]
    illegal = ["", ".", "..", "x" * 250, "a/b", "ä"]
    assert [name_problem(name) for name in legal] == [None] * 4
    assert all(name_problem(name) for name in illegal)


def test_topic_ids_come_from_the_stream() -> None:
    ids = [random_uuid(random.Random(seed)) for seed in range(200)]
    assert [len(each) for each in ids] == [22] * 200
    assert not any(each.startswith("-") for each in ids)
    assert ids[0] == random_uuid(random.Random(0))
