"""The metadata image is a replay of the log; the delta says what a replay touched."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.controller.common.image import BrokerImage, MetadataImage, PartitionRegistration
from kafkasim.model.controller.common.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    chain_digest,
)
from kafkasim.model.records import Record, RecordBatch, assigned, batch_of

RECORDS: list[Any] = [
    RegisterBrokerRecord(1, "i", "broker-1", "r1"),
    BrokerRegistrationChangeRecord(1, 0, fenced=-1),
    TopicRecord("t", "T"),
    ConfigRecord("t", "min.insync.replicas", "2"),
    PartitionRecord("T", 0, (1, 2), (1,), 1),
    PartitionChangeRecord("T", 0, isr=(1, 2)),
    PartitionChangeRecord("T", 0, leader=2),
    ProducerIdsRecord(1, 0, 1000),
    FeatureLevelRecord("metadata.version", 22),
    NoOpRecord(),
]


def replay(records: list[Any], image: MetadataImage | None = None) -> MetadataDelta:
    delta = MetadataDelta(image or MetadataImage())
    for record in records:
        delta.apply(record, delta.image.offset + 1, 3)
    return delta


def batch(records: list[Any], offset: int, control: bool = False) -> RecordBatch:
    built = batch_of(tuple([Record(None, r, 50, 0) for r in records]), control=control)
    return assigned(built, offset, 3)


def test_a_replay_gives_the_image() -> None:
    image = replay(RECORDS).image
    assert image.brokers == {1: BrokerImage(1, 0, "i", "broker-1", "r1", False, False)}
    assert image.partition("T", 0) == PartitionRegistration(
        (1, 2), (1, 2), (), (), 2, 1, 2, 0, (), ()
    )
    assert (image.offset, image.epoch, image.next_producer_id) == (9, 3, 1000)
    assert (image.configs, image.features) == (
        {"t": {"min.insync.replicas": "2"}},
        {"metadata.version": 22},
    )


def test_a_delta_keeps_the_final_state_of_what_was_touched() -> None:
    delta = replay(RECORDS)
    image = delta.image
    assert delta.changed_partitions == {("T", 0): image.partition("T", 0)}
    assert (list(delta.new_topics), list(delta.changed_configs)) == (["T"], ["t"])
    assert delta.changed_brokers == {1: image.brokers[1]}
    assert not delta.empty
    assert replay([NoOpRecord()], image).empty


def test_a_deleted_topic_takes_its_changes_along() -> None:
    delta = replay([*RECORDS, RemoveTopicRecord("T")])
    assert list(delta.deleted_topics) == ["T"]
    assert (delta.changed_partitions, delta.new_topics, delta.changed_configs) == ({}, {}, {})
    image = delta.image
    assert (image.topics, image.topic_names, image.configs) == ({}, {}, {})
    assert (image.partition("T", 0), image.topic_by_name("t")) == (None, None)


def test_an_unregistered_broker_is_none_in_the_delta() -> None:
    delta = replay([*RECORDS, UnregisterBrokerRecord(1, 0)])
    assert delta.changed_brokers == {1: None}
    assert not delta.image.is_active(1)


def test_a_broker_that_shuts_down_or_is_fenced_is_not_active() -> None:
    image = replay(RECORDS).image
    before = image.is_active(1)
    replay([BrokerRegistrationChangeRecord(1, 0, in_controlled_shutdown=1)], image)
    stopping = image.is_active(1)
    replay([BrokerRegistrationChangeRecord(1, 0, fenced=1)], image)
    assert (before, stopping, image.is_active(1)) == (True, False, False)
    assert image.brokers[1].in_controlled_shutdown


def test_a_copy_goes_its_own_way() -> None:
    image = replay(RECORDS).image
    twin = image.copy()
    assert twin.contents() == image.contents()
    before = image.contents()
    replay([PartitionChangeRecord("T", 0, leader=-1), ConfigRecord("t", "x", "1")], twin)
    replay([ConfigRecord("t", "x", None)], twin)
    assert image.contents() == before
    assert twin.contents() != before


def test_a_delta_has_a_partition_as_it_was_and_as_it_is() -> None:
    before = replay(RECORDS).image
    former = before.partition("T", 0)
    delta = replay(
        [
            PartitionChangeRecord("T", 0, isr=(2,)),
            PartitionRecord("T", 1, (1,), (1,), 1),
            PartitionChangeRecord("T", 0, isr=(1, 2)),
        ],
        before,
    )
    assert delta.former_partitions == {("T", 0): former, ("T", 1): None}
    assert delta.changed_partitions["T", 0].partition_epoch == former.partition_epoch + 2
    delta.forget_topic("T")
    assert (delta.former_partitions, delta.changed_partitions) == ({}, {})


def test_an_offset_is_replayed_once() -> None:
    image = replay(RECORDS).image
    with pytest.raises(AssertionError, match="replay of NoOpRecord"):
        image.apply(NoOpRecord(), image.offset, 3)


def test_batches_are_applied_and_control_batches_skipped() -> None:
    delta = MetadataDelta(MetadataImage())
    delta.apply_batch(batch(["leader-change"], 0, control=True))
    delta.apply_batch(batch([RECORDS[0], NoOpRecord()], 1))
    assert (delta.image.brokers[1].epoch, delta.image.offset) == (1, 2)


def test_the_digest_tells_logs_apart() -> None:
    one, two = batch(RECORDS[:1], 0), batch([NoOpRecord()], 1)
    assert chain_digest(chain_digest(0, one), two) == chain_digest(chain_digest(0, one), two)
    assert chain_digest(0, one) != chain_digest(0, batch(RECORDS[:1], 1))
    assert chain_digest(0, two) != chain_digest(5, two)
