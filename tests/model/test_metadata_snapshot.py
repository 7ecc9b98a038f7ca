"""The metadata image as a snapshot: there and back, what differs, when one is due."""

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.controller.common.deltas.snapshot import (
    Snapshot,
    SnapshotGenerator,
    image_values,
    load_snapshot,
)
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import (
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

HISTORY = [
    FeatureLevelRecord("metadata.version", 22),
    RegisterBrokerRecord(1, "one", "broker-1", "a"),
    RegisterBrokerRecord(2, "two", "broker-2", None),
    BrokerRegistrationChangeRecord(1, 1, fenced=-1),
    TopicRecord("orders", "T1"),
    PartitionRecord("T1", 0, (1, 2), (1, 2), 1),
    PartitionRecord("T1", 1, (2, 1), (2,), 2, elr=(1,)),
    ConfigRecord("orders", "min.insync.replicas", "2"),
    BrokerConfigRecord(1, "log.retention.ms", "5"),
    ProducerIdsRecord(1, 1, 1000),
    PartitionChangeRecord("T1", 0, isr=(1,), leader=1, removing_replicas=(2,)),
    TopicRecord("gone", "T2"),
    PartitionRecord("T2", 0, (1,), (1,), 1),
]


def replayed(records):
    image = MetadataImage()
    for offset, record in enumerate(records):
        image.apply(record, offset, 3)
    return image


def snapshot_of(image, digest=7):
    return Snapshot(image.offset + 1, image.epoch, image_values(image, digest))


def test_a_snapshot_gives_the_image_back():
    image = replayed(HISTORY)
    fresh = MetadataImage()
    assert load_snapshot(MetadataDelta(fresh), snapshot_of(image)) == 7
    assert fresh.contents() == image.contents()


def test_registrations_of_a_snapshot_stand_at_its_end():
    """QuorumController replays its records at SnapshotReader.lastContainedLogOffset."""
    image = replayed(HISTORY)
    fresh = MetadataImage()
    load_snapshot(MetadataDelta(fresh), snapshot_of(image))
    assert image.registration_offsets == {1: 1, 2: 2}
    assert fresh.registration_offsets == {1: image.offset, 2: image.offset}


def test_the_delta_of_a_snapshot_is_what_differs():
    later = replayed(
        [
            *HISTORY,
            RemoveTopicRecord("T2"),
            TopicRecord("new", "T3"),
            PartitionRecord("T3", 0, (1,), (1,), 1),
            PartitionChangeRecord("T1", 1, leader=1),
            BrokerRegistrationChangeRecord(2, 2, fenced=-1),
            ConfigRecord("orders", "min.insync.replicas", None),
            BrokerConfigRecord(2, "log.retention.ms", "6"),
        ]
    )
    delta = MetadataDelta(replayed(HISTORY))
    load_snapshot(delta, snapshot_of(later))
    assert list(delta.changed_partitions) == [("T1", 1), ("T3", 0)]
    assert delta.changed_partitions["T1", 1].leader_epoch == 1
    assert (list(delta.new_topics), list(delta.deleted_topics)) == (["T3"], ["T2"])
    assert (list(delta.changed_brokers), list(delta.changed_configs)) == ([2], ["orders"])
    assert list(delta.changed_broker_configs) == [2]
    assert delta.image.contents() == later.contents()


def test_replay_goes_on_above_a_snapshot():
    image = replayed(HISTORY)
    fresh = MetadataImage()
    delta = MetadataDelta(fresh)
    load_snapshot(delta, snapshot_of(image))
    record = PartitionChangeRecord("T1", 0, isr=(1, 2))
    image.apply(record, 20, 4)
    delta.apply(record, 20, 4)
    assert fresh.contents() == image.contents()


def test_a_snapshot_is_due_by_bytes_or_by_time():
    config = BrokerConfig(
        metadata_log_max_record_bytes_between_snapshots=1000,
        metadata_log_max_snapshot_interval_ms=50,
    )
    generator = SnapshotGenerator(config, 0)
    times = [(600, 0), (600, 1), (600, 2), (0, 49_999), (0, 50_001), (0, 50_002)]
    assert [generator.published(size, now) for size, now in times] == [
        False, True, False, False, True, False,
    ]  # fmt: skip
    never = BrokerConfig(metadata_log_max_snapshot_interval_ms=0)
    assert not SnapshotGenerator(never, 0).published(0, 1 << 60)
