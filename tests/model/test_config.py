"""Configurations: Kafka's names, types, ranges, and rules over several keys."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kafkasim.model.config import (
    BrokerConfig,
    Config,
    ConfigError,
    ConsumerConfig,
    ProducerConfig,
    TopicConfig,
)


@pytest.mark.parametrize(
    ("kind", "key", "raw", "message"),
    [
        (BrokerConfig, "replica.lag.max", 1, "unknown key"),
        (BrokerConfig, "num.io.threads", "many", "'many' is not a number"),
        (BrokerConfig, "num.io.threads", True, "True is not a number"),
        (BrokerConfig, "num.io.threads", 0, "0 is below 1"),
        (BrokerConfig, "unclean.leader.election.enable", "yes", "neither true nor false"),
        (ProducerConfig, "acks", "2", "'2' is not one of all, -1, 0, 1"),
        (ProducerConfig, "acks", 1.5, "is not a string"),
        (ProducerConfig, "acks", "1", "must be all when enable.idempotence is true"),
        (ProducerConfig, "retries", 0, "must be above 0 when enable.idempotence is true"),
        (ProducerConfig, "max.in.flight.requests.per.connection", 6, "6 is above 5"),
        (ProducerConfig, "delivery.timeout.ms", 1000, "1000 is below linger.ms"),
        (ConsumerConfig, "heartbeat.interval.ms", 45000, "45000 is not below session.timeout.ms"),
        (ConsumerConfig, "partition.assignment.strategy", "best", "'best' is not one of range"),
    ],
)
def test_a_refusal_names_the_key_and_what_is_allowed(
    kind: type[Config], key: str, raw: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        kind.from_properties({key: raw})
    assert caught.value.key == key
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_values_may_be_strings_as_in_a_properties_file() -> None:
    config = BrokerConfig.from_properties(
        {"num.io.threads": "4", "unclean.leader.election.enable": "true"}
    )
    assert (config.num_io_threads, config.unclean_leader_election_enable) == (4, True)


def test_a_string_may_be_written_as_an_integer() -> None:
    properties = {"acks": 1, "enable.idempotence": False}
    assert ProducerConfig.from_properties(properties).acks == "1"


@pytest.mark.parametrize("kind", [BrokerConfig, ProducerConfig, ConsumerConfig])
def test_properties_round_trip(kind: type[Config]) -> None:
    config = kind()
    assert kind.from_properties(config.properties()) == config
    assert config.with_properties({}) == config


def test_a_topics_overrides_stand_above_the_brokers_defaults() -> None:
    broker = BrokerConfig.from_properties({"min.insync.replicas": 2, "log.retention.ms": 5})
    topic = broker.topic_config({"retention.ms": "7"})
    assert (topic.min_insync_replicas, topic.retention_ms) == (2, 7)
    assert broker.topic_config({}).retention_ms == 5


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"group.share.session.timeout.ms": 44000}, "44000 is not from 45000 to 60000"),
        ({"group.share.heartbeat.interval.ms": 16000}, "16000 is not from 5000 to 15000"),
        ({"group.share.record.lock.duration.ms": 14999}, "14999 is not from 15000 to 60000"),
        ({"group.share.max.share.sessions": 199}, "199 is below group.share.max.size = 200"),
        (
            {
                "group.share.max.heartbeat.interval.ms": 45000,
                "group.share.heartbeat.interval.ms": 45000,
            },
            "45000 is not below group.share.session.timeout.ms = 45000",
        ),
    ],
)
def test_settings_of_share_groups_are_checked_together(
    properties: dict[str, int], message: str
) -> None:
    """GroupCoordinatorConfig, ShareGroupConfig.validate."""
    with pytest.raises(ConfigError, match=message):
        BrokerConfig.from_properties(properties)


@pytest.mark.parametrize(
    ("text", "on_fetch", "alter_partition", "recovery"),
    [
        ("2.6", False, False, False),
        ("2.7-IV0", False, False, False),
        ("2.7-IV1", True, False, False),
        ("2.7", True, True, False),
        ("2.8-IV1", True, True, False),
        ("2.8.0", True, True, False),
        ("3.2-IV0", True, True, True),
        ("3.9", True, True, True),
    ],
)
def test_an_inter_broker_protocol_is_written_as_kafka_accepts_it(
    text: str, on_fetch: bool, alter_partition: bool, recovery: bool
) -> None:
    """MetadataVersion.fromVersionString: the first two parts, and a release is its last IV."""
    config = BrokerConfig.from_properties({"inter.broker.protocol.version": text})
    rules = config.truncation_on_fetch, config.alter_partition_enabled
    assert (*rules, config.leader_recovery_supported) == (on_fetch, alter_partition, recovery)


@pytest.mark.parametrize("text", ["2.8-IV7", "2.3", "newest", "2"])
def test_an_inter_broker_protocol_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"allowed: 2\.4-IV0 to 3\.9-IV0, also as 2\.8 or 2\.8"):
        BrokerConfig.from_properties({"inter.broker.protocol.version": text})


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        (BrokerConfig, "compression.lz4.level", "is a property of Kafka that is not modelled"),
        (ProducerConfig, "send.buffer.bytes", "is a property of Kafka that is not modelled"),
        (ProducerConfig, "log.dirs", "in Kafka it is a property of brokers"),
        (TopicConfig, "auto.offset.reset", "in Kafka it is a property of consumers"),
        (BrokerConfig, "num.io.thread", "did you mean num.io.threads"),
    ],
)
def test_a_name_of_kafkas_is_not_taken_for_another(kind: type[Config], key: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        kind.from_properties({key: 1})
