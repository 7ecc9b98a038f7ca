"""MirrorMaker 2: names, which offset syncs are written, and what they translate offsets to."""

from __future__ import annotations

import pytest

from kafkasim.model.config import ConfigError
from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.offset_syncs import OffsetSync, OffsetSyncStore, OffsetSyncWriter
from kafkasim.model.connect.policies import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    is_cycle,
    matches,
)
from kafkasim.model.connect.rules import MirrorRules
from kafkasim.model.connect.topic_settings import (
    mirrored_acls,
    settings_at_creation,
    settings_to_sync,
)
from kafkasim.model.messages import AclBinding, DescribedConfig
from kafkasim.model.messages.clients import configs
from kafkasim.model.records import TopicPartition

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
DEFAULT, IDENTITY = DefaultReplicationPolicy(), IdentityReplicationPolicy()

OF_IDENTITY = MirrorConfig.from_properties(
    {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
)


def store(*syncs: tuple[int, int], read_to_end: bool = True, last: bool = False) -> OffsetSyncStore:
    made = OffsetSyncStore(MirrorRules(), checkpoints_read=not last)
    made.read_to_end = read_to_end and not last
    for up, down in syncs:
        made.take(OffsetSync(TP, up, down))
    made.read_to_end = read_to_end
    return made


def written(lag_max: int, *acknowledged: tuple[int, int]) -> list[tuple[int, int]]:
    writer = OffsetSyncWriter(MirrorRules(), lag_max)
    found = []
    for up, down in acknowledged:
        writer.acknowledged(OffsetSync(TP, up, down))
        for sync in writer.take():
            found.append((sync.up, sync.down))
            writer.answered()
    return found


def test_a_topic_has_its_cluster_in_front_of_its_name_elsewhere() -> None:
    assert DEFAULT.remote_topic("a", "orders") == "a.orders"
    assert (DEFAULT.topic_source("a.orders"), DEFAULT.upstream_topic("a.orders")) == ("a", "orders")
    assert (DEFAULT.topic_source("orders"), DEFAULT.upstream_topic("orders")) == (None, None)
    assert DEFAULT.topic_source("user.topic") == "user"  # it looks like a mirrored one
    assert DefaultReplicationPolicy("_").remote_topic("a", "orders") == "a_orders"


def test_the_identity_policy_keeps_names_and_knows_no_source() -> None:
    assert IDENTITY.remote_topic("a", "orders") == "orders"
    assert (IDENTITY.topic_source("a.orders"), IDENTITY.upstream_topic("a.orders")) == (None, None)


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [("orders", False), ("b.orders", True), ("c.b.orders", True), ("c.orders", False)],
)
def test_a_topic_that_came_from_the_target_is_a_cycle(topic: str, is_one: bool) -> None:
    assert is_cycle(DEFAULT, "b", topic) == is_one
    assert MirrorConfig().takes_topic("b", topic, MirrorRules()) != is_one
    assert OF_IDENTITY.takes_topic("b", topic, MirrorRules())


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        "mm2-offset-syncs.b.internal",
        "a.checkpoints.internal",
        "x.replica",
        "connect-configs.internal",
        "connect-offsets-internal",
        ".hidden",
    ],
)
def test_internal_topics_are_not_mirrored(topic: str) -> None:
    assert not MirrorConfig().takes_topic("b", topic, MirrorRules())


def test_heartbeats_are_mirrored_whatever_topics_says_and_never_back() -> None:
    orders = {"topics": "orders"}
    beats = ["heartbeats", "c.heartbeats", "b.heartbeats", "b.c.heartbeats", "my.heartbeats.old"]
    takes = MirrorConfig.from_properties(orders).takes_topic
    assert [each for each in beats if takes("b", each, MirrorRules())] == [
        "heartbeats",
        "c.heartbeats",
    ]
    off = MirrorConfig.from_properties({**orders, "heartbeats.replication.enabled": False})
    assert not off.takes_topic("b", "heartbeats", MirrorRules())
    assert IDENTITY.remote_topic("a", "heartbeats") == "a.heartbeats"
    # as of DefaultReplicationPolicy
    assert not OF_IDENTITY.takes_topic("b", "b.heartbeats", MirrorRules())


def test_topics_are_chosen_by_expressions_that_match_whole_names() -> None:
    assert matches("orders, pay.*", "payments")
    assert not matches("order, pay", "orders")


def test_the_first_record_is_synced_and_then_each_that_makes_the_translation_too_old() -> None:
    run = [(offset, offset) for offset in range(250)]
    assert written(100, *run) == [(0, 0), (101, 101), (202, 202)]
    assert written(0, *run[:3]) == run[:3]


def test_a_gap_and_a_target_that_went_back_are_synced_at_once() -> None:
    assert written(100, (0, 0), (1, 1), (3, 2), (4, 3)) == [(0, 0), (3, 2)]
    assert written(100, (0, 7), (1, 8), (2, 3), (3, 4)) == [(0, 7), (2, 3)]


def test_what_is_not_due_waits_for_the_commit_of_source_offsets() -> None:
    writer = OffsetSyncWriter(MirrorRules(), 100)
    for up in range(3):
        writer.acknowledged(OffsetSync(TP, up, up))
    assert writer.take() == [OffsetSync(TP, 0, 0)]
    writer.promote()
    assert (writer.take(), writer.take()) == ([OffsetSync(TP, 2, 2)], [])


def test_ten_syncs_are_in_flight_and_the_newest_of_a_partition_waits() -> None:
    writer = OffsetSyncWriter(MirrorRules(), 0)
    for number in range(12):
        writer.acknowledged(OffsetSync(TopicPartition("orders", number), 5, 5))
    assert [sync.tp.partition for sync in writer.take()] == list(range(10))
    writer.acknowledged(OffsetSync(TopicPartition("orders", 11), 6, 6))
    assert writer.take() == []
    writer.answered()
    writer.answered()
    assert [(sync.tp.partition, sync.up) for sync in writer.take()] == [(10, 5), (11, 6)]


def test_an_offset_behind_a_sync_becomes_the_one_behind_it_and_no_more() -> None:
    known = store((100, 50))
    assert [known.translate(TP, offset) for offset in (99, 100, 101, 200)] == [-1, 50, 51, 51]
    assert known.translate(OTHER, 100) is None


def test_nothing_is_translated_until_all_syncs_are_read() -> None:
    assert store((100, 50), read_to_end=False).translate(TP, 100) is None


def test_without_earlier_checkpoints_only_the_last_sync_of_before_counts() -> None:
    assert store((0, 0), (100, 50), (200, 90), last=True).translate(TP, 150) == -1
    assert store((0, 0), (100, 50), (200, 90)).translate(TP, 150) == 51


def test_a_source_that_was_made_anew_clears_all_syncs() -> None:
    assert store((0, 0), (100, 100), (10, 200)).translate(TP, 150) == 201


@pytest.mark.parametrize("step", [1, 3, 100, 101])
def test_the_syncs_that_are_kept_translate_closer_the_newer_the_offset(step: int) -> None:
    """A group may be read again about as much as it lags behind (OffsetSyncStoreTest)."""
    end = 400 * step
    known = store(*[(up, up) for up in range(0, end + 1, step)])
    for lag in (0, 1, 10, 100, end // 2):
        found = known.translate(TP, end - lag)
        assert found is not None
        assert end - lag - 2 * max(lag, 1) - 2 * step <= found <= end - lag
    assert known.translate(TP, 0) == 0


def test_settings_have_the_names_and_defaults_of_kafka() -> None:
    config = MirrorConfig.from_properties(
        {"offset.lag.max": 5, "replication.policy.separator": "_"}
    )
    assert (config.offset_lag_max, config.policy.remote_topic("a", "t")) == (5, "a_t")
    assert MirrorConfig().sync_group_offsets_enabled is False
    with pytest.raises(ConfigError, match=r"replication\.policy\.class: 'x' is not one of"):
        MirrorConfig.from_properties({"replication.policy.class": "x"})


def test_the_offset_syncs_topic_has_a_dash_in_its_settings() -> None:
    """MirrorConnectorConfig.OFFSET_SYNCS_TOPIC_CONFIG_PREFIX."""
    name = "offset-syncs.topic.replication.factor"
    config = MirrorConfig.from_properties({name: 1})
    assert (config.offset_syncs_topic_replication_factor, config.properties()[name]) == (1, 1)
    with pytest.raises(ConfigError, match=rf"^offset\.syncs\.topic.* did you mean {name} or "):
        MirrorConfig.from_properties({"offset.syncs.topic.replication.factor": 1})
    with pytest.raises(ConfigError, match=rf"^{name}: 0 is below 1$"):
        MirrorConfig.from_properties({name: 0})


DESCRIBED = [
    DescribedConfig(name, value, source, (), configs.STRING)
    for name, value, source in (
        ("retention.ms", "6000", configs.OF_TOPIC),
        ("segment.ms", "9000", configs.OF_ALL_BROKERS),
        ("retention.bytes", "7", configs.STATIC),  # the broker's file
        ("cleanup.policy", "delete", configs.DEFAULT),
        ("min.insync.replicas", "2", configs.OF_TOPIC),  # excluded by default
    )
]


@pytest.mark.parametrize(
    ("given", "at_creation", "synced"),
    [({}, ["retention.ms=6000", "segment.ms=9000"],
      ["retention.ms=6000", "segment.ms=9000", "cleanup.policy=None"]),
     ({"use.defaults.from": "source"},
      ["retention.ms=6000", "segment.ms=9000", "cleanup.policy=delete"],
      ["retention.ms=6000", "segment.ms=9000", "cleanup.policy=delete"]),
     ({"config.properties.exclude": "segment.ms, retention.*, cleanup.*"},
      ["min.insync.replicas=2"], ["min.insync.replicas=2"])],
)  # fmt: skip
def test_a_mirrored_topic_has_the_settings_that_its_source_has_of_its_own(
    given: dict[str, str], at_creation: list[str], synced: list[str]
) -> None:
    """MirrorSourceConnectorTest: testIncrementalAlterConfigs, testConfigPropertyFiltering."""
    config = MirrorConfig.from_properties(given)
    found = settings_at_creation(config, DESCRIBED), settings_to_sync(config, DESCRIBED)
    assert [[f"{key}={value}" for key, value in each] for each in found] == [at_creation, synced]


@pytest.mark.parametrize(
    ("entry", "mirrored"),
    [("topic orders literal read allow", "b.orders read allow"),
     ("topic orders literal all allow", "b.orders read allow"),
     ("topic orders literal write allow", ""),
     ("topic orders literal write deny", "b.orders write deny"),
     ("topic orders literal all deny", "b.orders all deny"),
     ("topic ord prefixed read allow", ""),
     ("topic c.orders literal read allow", ""),  # it came from there
     ("group orders literal read allow", "")],
)  # fmt: skip
def test_who_may_read_at_home_may_read_the_mirror_and_nobody_writes_to_it(
    entry: str, mirrored: str
) -> None:
    """MirrorSourceConnectorTest: testAclFiltering, testAclTransformation, testNoPrefixedAcl."""
    kind, name, pattern, operation, permission = entry.split()
    binding = AclBinding(kind, name, pattern, "User:u", "*", operation, permission)
    found = mirrored_acls(lambda topic: f"b.{topic}", lambda topic: topic == "orders", [binding])
    assert [f"{each.name} {each.operation} {each.permission}" for each in found] == (
        [mirrored] if mirrored else []
    )
