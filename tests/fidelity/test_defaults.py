"""The model's settings have the types, defaults and valid values of Kafka's own ConfigDefs.

``defaults/VERSION.txt`` is what each version of Kafka printed. ``LISTED`` holds every difference
with the versions that show it and the reason; one that is gone must leave the list. With Java,
``make fidelity`` prints the settings again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from itertools import permutations
from typing import Any

import pytest

from kafkasim.model.config import (
    BrokerConfig,
    ClientConfig,
    Config,
    ConfigError,
    ConsumerConfig,
    ProducerConfig,
    TopicConfig,
    setting,
)
from kafkasim.model.config.kafka_names import KAFKA_CONFIG_NAMES, KAFKA_NAMES
from kafkasim.model.controller.common.configs import DYNAMIC
from kafkasim.scenarios.language.vocabulary import VERSIONS as RELEASES
from kafkasim.scenarios.variants.releases import ADMIN, BROKER, CONSUMER, PRODUCER
from tests.fidelity.kafka_settings import NUMBERS, VERSIONS, Setting, committed

KINDS: dict[str, type[Config]] = {
    "broker": BrokerConfig,
    "topic": TopicConfig,
    "producer": ProducerConfig,
    "consumer": ConsumerConfig,
    "admin": ClientConfig,
}

OF_RELEASE: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "broker": BROKER,
    "producer": PRODUCER,
    "consumer": CONSUMER,
    "admin": ADMIN,
}

FALLBACKS = {
    "log.roll.ms": ("log.roll.hours", 3_600_000),
    "log.retention.ms": ("log.retention.hours", 3_600_000),
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms", 1),
}
"""Keys without a default of their own: the key that counts then, and its unit in ms."""

EVERY = " ".join(VERSIONS)
BOUNDED = "the rules of the release bound it (tests/scenarios/test_segment_sizes.py)"
SMALL = "short runs roll small segments of the metadata log (KIP-1030)"

LISTED: tuple[tuple[str, str, str, str, str], ...] = (
    # versions, kind, what differs, keys, reason
    (
        "4.0.0 4.1.0", "broker", "no such key",
        """
            inter.broker.protocol.version controlled.shutdown.max.retries
            controlled.shutdown.retry.backoff.ms zookeeper.session.timeout.ms
            leader.imbalance.per.broker.percentage
        """,
        "ZooKeeper mode has them, and nothing else reads them",
    ),
    (
        "2.8.2", "broker", "no such key",
        """
            log.dir.failure.timeout.ms metadata.log.max.record.bytes.between.snapshots
            metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes metadata.log.segment.ms
            metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
            unclean.leader.election.interval.ms
        """,
        "KRaft alone reads them, which 2.8 has as a preview and the model's 2.8 not at all",
    ),
    (
        "2.8.2", "broker", "no such key",
        "log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms",
        "2.8 has log.message.timestamp.difference.max.ms for both, as far by default (KIP-937)",
    ),
    (
        "2.8.2", "topic", "no such key",
        "message.timestamp.after.max.ms message.timestamp.before.max.ms", "the same of a topic",
    ),
    (
        "2.8.2", "broker", "no such key",
        "producer.id.expiration.ms producer.id.expiration.check.interval.ms",
        "2.8 takes transactional.id.expiration.ms, and looks every ten minutes (KIP-854)",
    ),
    (
        "2.8.2", "broker", "no such key", "socket.listen.backlog.size",
        "the listen backlog has 50 places (KIP-764)",
    ),
    (
        "2.8.2", "broker", "no such key", "log.initial.task.delay.ms",
        "2.8 has a constant, 30 s as by default (LogManager.InitialTaskDelayMs)",
    ),
    (
        "2.8.2", "producer", "no such key", "retry.backoff.max.ms",
        "2.8 has a constant backoff, the model's clients of 2.8 do not read the key (KIP-580)",
    ),
    ("2.8.2", "consumer", "no such key", "retry.backoff.max.ms", "the same"),
    ("2.8.2", "admin", "no such key", "retry.backoff.max.ms", "the same"),
    *(
        (versions, kind, "no such key", key, "none of them rebootstraps (KIP-899, KIP-1102)")
        for kind in ("producer", "consumer", "admin")
        for versions, key in (
            ("2.8.2", "metadata.recovery.strategy"),
            ("2.8.2 3.9.1", "metadata.recovery.rebootstrap.trigger.ms"),
        )
    ),
    *(
        ("3.9.1 4.0.0 4.1.0", kind, "valid values", "metadata.recovery.strategy", "in lower case")
        for kind in ("producer", "consumer", "admin")
    ),
    (
        "2.8.2 3.9.1", "broker", "default", "inter.broker.protocol.version",
        '"" is the release\'s own',
    ),
    (
        "2.8.2 3.9.1", "broker", "valid values", "inter.broker.protocol.version",
        "the model knows the releases since 2.4, the first with a rule of its own here",
    ),
    (
        EVERY, "consumer", "valid values", "partition.assignment.strategy",
        "Kafka takes any class; the model takes Kafka's four, by class or name, and module:name",
    ),
    (
        EVERY, "broker", "no such key", "super.users allow.everyone.if.no.acl.found",
        "they are the authorizer's, which reads them itself (StandardAuthorizer.configure)",
    ),
    (
        EVERY, "broker", "valid values", "authorizer.class.name",
        "Kafka takes any class; the model has StandardAuthorizer",
    ),
    (
        EVERY, "broker", "valid values", "replica.selector.class",
        "Kafka takes any class; the model has Kafka's own",
    ),
    (
        "2.8.2", "broker", "no such key",
        """
            group.consumer.assignors group.consumer.heartbeat.interval.ms
            group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
            group.consumer.max.size group.consumer.migration.policy
            group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
            group.consumer.session.timeout.ms group.coordinator.rebalance.protocols
        """,
        "2.8 has no consumer groups (KIP-848)",
    ),
    (
        "3.9.1 4.0.0 4.1.0", "broker", "valid values",
        "group.consumer.migration.policy group.coordinator.rebalance.protocols",
        "in lower case, and a tuple of the protocols; the model knows the names",
    ),
    ("3.9.1 4.0.0 4.1.0", "consumer", "valid values", "group.protocol", "in lower case"),
    (
        "2.8.2", "producer", "default", "partitioner.class",
        '2.8 names the class of its default partitioner, which the model has for ""',
    ),
    ("2.8.2", "producer", "valid values", "compression.type", "2.8 finds out when it compresses"),
    (
        "2.8.2", "consumer", "no such key", "group.protocol group.remote.assignor",
        "2.8 has no consumer groups (KIP-848)",
    ),
    (
        "2.8.2 3.9.1", "broker", "no such key",
        "add.partitions.to.txn.retry.backoff.ms add.partitions.to.txn.retry.backoff.max.ms",
        "transaction.version 2 alone reads them (KIP-890)",
    ),
    (
        "2.8.2", "broker", "no such key", "transaction.partition.verification.enable",
        "2.8 verifies nothing (KIP-890)",
    ),
    (
        "3.9.1", "broker", "default", "group.consumer.assignors",
        "the preview named the classes of the same two assignors",
    ),
    (
        "2.8.2", "broker", "no such key",
        "group.coordinator.append.linger.ms group.coordinator.threads",
        "the Scala coordinator has none",
    ),
    (
        "3.9.1", "broker", "default", "group.coordinator.append.linger.ms",
        "its Scala coordinator, which is the default there, appends at once",
    ),
    (
        "4.1.0", "broker", "default", "group.coordinator.rebalance.protocols",
        "4.1 has streams groups, too, which the model has not",
    ),
    ("4.0.0 4.1.0", "consumer", "valid values", "auto.offset.reset", "KIP-1106 is not modelled"),
    ("4.0.0 4.1.0", "broker", "valid values", "log.segment.bytes", BOUNDED),
    ("4.1.0", "topic", "valid values", "segment.bytes", BOUNDED),
    (
        "2.8.2 3.9.1 4.0.0", "topic", "no such key", "internal.segment.bytes",
        "the controller refuses it, and a broker ignores it, as the release does",
    ),
    ("4.1.0", "topic", "default", "internal.segment.bytes", "0 stands for null"),
    ("4.1.0", "topic", "valid values", "internal.segment.bytes", "Kafka takes any number"),
    ("3.9.1 4.0.0 4.1.0", "broker", "valid values", "metadata.log.segment.bytes", SMALL),
    (
        EVERY, "broker", "valid values",
        """
            broker.heartbeat.interval.ms broker.session.timeout.ms controlled.shutdown.max.retries
            controlled.shutdown.retry.backoff.ms controller.quorum.append.linger.ms
            controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
            controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
            controller.quorum.retry.backoff.ms default.replication.factor
            group.initial.rebalance.delay.ms group.max.session.timeout.ms
            group.min.session.timeout.ms initial.broker.registration.timeout.ms
            leader.imbalance.check.interval.seconds leader.imbalance.per.broker.percentage
            log.flush.interval.ms log.retention.bytes log.retention.ms log.roll.ms
            metadata.log.segment.ms metadata.max.retention.bytes metadata.max.retention.ms
            num.replica.fetchers offset.metadata.max.bytes replica.fetch.min.bytes
            replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms
            replica.lag.time.max.ms replica.socket.timeout.ms request.timeout.ms
            zookeeper.session.timeout.ms
        """,
        "ConfigDef has no range, or a wider one; numbers below the model's mean nothing",
    ),
    ("2.8.2", "broker", "valid values", "compression.type", "2.8 refuses it when it is read"),
    (
        "2.8.2", "broker", "valid values",
        """
            log.cleaner.delete.retention.ms log.cleaner.max.compaction.lag.ms
            log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
        """,
        "2.8 checks them in a topic only",
    ),
    (EVERY, "topic", "valid values", "cleanup.policy", "ValidList takes an empty list, too"),
    (EVERY, "topic", "valid values", "flush.messages retention.bytes", "the same"),
    (EVERY, "consumer", "valid values", "heartbeat.interval.ms session.timeout.ms", "the same"),
    (
        "2.8.2", "broker", "no such key",
        """
            group.share.delivery.count.limit group.share.heartbeat.interval.ms
            group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms
            group.share.max.session.timeout.ms group.share.max.size
            group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms
            group.share.min.session.timeout.ms group.share.partition.max.record.locks
            group.share.record.lock.duration.ms group.share.session.timeout.ms
        """,
        "2.8 has no share groups (KIP-932)",
    ),
    (
        "2.8.2 3.9.1", "broker", "no such key",
        """
            share.coordinator.append.linger.ms share.coordinator.load.buffer.size
            share.coordinator.snapshot.update.records.per.snapshot
            share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
            share.coordinator.state.topic.prune.interval.ms
            share.coordinator.state.topic.replication.factor
            share.coordinator.state.topic.segment.bytes share.coordinator.threads
            share.coordinator.write.timeout.ms
        """,
        "they have no share coordinator (KIP-932)",
    ),
    (
        "2.8.2 3.9.1 4.0.0", "broker", "no such key",
        """
            group.share.assignors group.share.max.share.sessions
            share.coordinator.cold.partition.snapshot.interval.ms
        """,
        "the model has the share groups of 4.1",
    ),
    (
        "3.9.1", "broker", "valid values",
        "group.share.max.size group.share.record.lock.duration.ms", "the same",
    ),
    (
        "3.9.1 4.0.0", "broker", "default",
        "group.share.partition.max.record.locks", "the same",
    ),
    ("4.0.0", "broker", "default", "share.coordinator.append.linger.ms", "the same"),
    (
        "4.1.0", "broker", "valid values", "group.share.assignors",
        "Kafka takes any class; the model has Kafka's own",
    ),
)  # fmt: skip

STATIC_HERE = {
    **dict.fromkeys(
        (
            "max.connection.creation.rate",
            "max.connections",
            "max.connections.per.ip",
            "max.connections.per.ip.overrides",
        ),
        "a broker of the model keeps the limits of connections that it started with",
    ),
    "background.threads": "a broker of the model keeps its number of threads that flush",
    "num.io.threads": "a broker of the model keeps its number of request handlers",
    "num.network.threads": "a broker of the model keeps its number of network threads",
    "num.replica.fetchers": "a broker of the model keeps its number of fetchers",
    "producer.id.expiration.ms": "a log of the model keeps the time it was opened with",
    "transaction.partition.verification.enable": "a broker of the model keeps what it started with",
}
"""Settings that a running broker of Kafka changes and the model's does not, with the reason."""

BROKER_HAS_NONE = {
    "cleanup.policy": "there is no log.cleanup.policy: no default for all topics",
    "internal.segment.bytes": "nor has Kafka one",
}
"""Topics' settings whose default a broker of the model cannot set, with the reason."""


@pytest.mark.parametrize("version", VERSIONS)
def test_settings_differ_where_a_reason_is_listed(version: str) -> None:
    listed = {
        f"{kind} {key}: {what}"
        for versions, kind, what, keys, _ in LISTED
        for key in keys.split()
        if version in versions.split()
    }
    found = differences(version)
    assert {label: found[label] for label in found if label not in listed} == {}


def test_each_listed_difference_is_there() -> None:
    found = {version: differences(version) for version in VERSIONS}
    for versions, kind, what, keys, reason in LISTED:
        assert reason
        for key in keys.split():
            label = f"{kind} {key}: {what}"
            assert any(label in found[version] for version in versions.split()), label


def test_a_wrong_default_and_a_wrong_range_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Wrong(Config):
        acks: str = setting("1", allowed=("all", "-1", "0", "1"))
        linger_ms: int = setting(5, 0)  # LONG in Kafka
        batch_size: int = setting(16384, 1)
        no_such_ms: int = setting(1)

    monkeypatch.setattr(f"{__name__}.KINDS", {"producer": Wrong})
    assert list(differences("4.0.0")) == [
        "producer acks: default",
        "producer linger.ms: valid values",
        "producer batch.size: valid values",
        "producer no.such.ms: no such key",
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_take_their_defaults_from_the_broker_settings_that_kafka_names(version: str) -> None:
    real, known = committed(version), BrokerConfig().properties()
    own = BrokerConfig().topic_config({}).properties()
    followed = set()
    for (kind, key), setting_ in real.items():
        source = setting_.note.removeprefix("default of ")
        if kind != "topic" or key not in own or source == setting_.note:
            continue
        if source not in known:
            assert key in BROKER_HAS_NONE or real.get(("broker", source)) is None
            continue
        broker = BrokerConfig.from_properties({source: another(known[source])})
        assert broker.topic_config({}).properties() == {
            **own, key: broker.properties()[source]
        }, key  # fmt: skip
        followed.add(key)
    missing = {key for key in own if ("topic", key) in real} - followed
    none = {key for key in BROKER_HAS_NONE if ("topic", key) in real}
    assert {key for key in missing if "throttled" not in key} == none


def another(value: Any) -> Any:
    """Return a valid value that differs from a broker's default."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value / 2
    if isinstance(value, str):
        return {"CreateTime": "LogAppendTime", "producer": "lz4"}[value]
    return value - 1 if value > 1 else value + 2


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_running_broker_takes_the_changes_that_kafkas_takes(version: str) -> None:
    dynamic = {
        key
        for (kind, key), setting_ in committed(version).items()
        if kind == "broker" and setting_.note in ("dynamic", "dynamic only")
    }
    own = set(BrokerConfig().properties())
    assert set(DYNAMIC) - dynamic == set()
    assert (dynamic & own) - set(DYNAMIC) == set(STATIC_HERE)


def test_all_keys_of_brokers_are_known_by_name() -> None:
    names = {
        key
        for version in ("3.9.1", "4.0.0")
        for (kind, key), setting_ in committed(version).items()
        if kind == "broker" and setting_.note != "dynamic only"
    }
    assert names == KAFKA_CONFIG_NAMES


def test_all_names_of_settings_are_known_by_kind() -> None:
    every = [row for version in VERSIONS for row in committed(version)]
    names = {kind: {key for of, key in every if of == kind} for kind, _ in every}
    assert names == KAFKA_NAMES


def differences(version: str) -> dict[str, str]:
    """Return how the model's settings differ from a version's: label to both values."""
    real = committed(version)
    found = {}
    for kind, config in KINDS.items():
        model = model_config(kind, release(version))
        for field in fields(config):
            key = field.name.replace("_", ".")
            label = f"{kind} {key}"
            row = real.get((kind, key))
            if row is None:
                found[f"{label}: no such key"] = ""
                continue
            default = getattr(model, field.name)
            if shown(default) != kafkas_default(real, kind, key):
                found[f"{label}: default"] = f"Kafka {row.default}, model {shown(default)}"
            if (valid := invalid_range(config, field, row)) is not None:
                found[f"{label}: valid values"] = valid
    return found


def release(version: str) -> str:
    """Return the release of a scenario that stands for a version of Kafka."""
    short = ".".join(version.split(".")[:2])
    names = [name for name in RELEASES if name.removesuffix("-zk") == short]
    return names[0] if names else RELEASES[-1]


def model_config(kind: str, of: str) -> Config:
    """Return the model's configuration of a kind in a release, without properties."""
    if kind == "topic":
        broker = model_config("broker", of)
        assert isinstance(broker, BrokerConfig)
        return broker.topic_config({})
    return KINDS[kind].from_properties(OF_RELEASE.get(kind, {}).get(of, {}))


def kafkas_default(real: Mapping[tuple[str, str], Setting], kind: str, key: str) -> str:
    """Return a default; of a topic's row, the default of the broker's that it comes from."""
    row = real[kind, key]
    source = row.note.removeprefix("default of ")
    if source != row.note and ("broker", source) in real:
        return kafkas_default(real, "broker", source)
    if row.default == "null" and key in FALLBACKS:
        coarse, unit = FALLBACKS[key]
        return str(int(real[kind, coarse].default) * unit)
    return "" if row.default == "null" else row.default


def shown(value: Any) -> str:
    """Return a value as Kafka prints it; nothing for none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def invalid_range(config: type[Config], field: Field[Any], row: Setting) -> str | None:
    """Return both sides' valid values where they differ, else None."""
    low, high, allowed = (field.metadata[name] for name in ("low", "high", "allowed"))
    valid = row.valid
    if row.type in NUMBERS:
        kafka = interval(row)
        model = (low, high)
    elif row.type == "DOUBLE":
        kafka, model = valid, "null" if low is None else f"[{low},...,{high}]"
    elif valid == "non-empty string":
        kafka, model = True, refuses(config, field, "")
    elif valid.startswith("[partitionId]"):
        kafka, model = (
            (True, True),
            (refuses(config, field, "x"), not refuses(config, field, "1:2")),
        )
    elif row.type == "LIST" and valid.startswith("["):
        names = valid.strip("[]").split(", ")
        kafka = sorted(",".join(p) for n in range(len(names)) for p in permutations(names, n + 1))
        model = sorted(allowed or ())
    elif valid.startswith("["):
        kafka, model = sorted(valid.strip("[]").split(", ")), sorted(allowed or ())
    else:
        kafka, model = valid, "null" if allowed is None else str(allowed)
    return None if kafka == model else f"Kafka {kafka}, model {model}"


def interval(row: Setting) -> tuple[int | None, int]:
    """Return the least and the greatest number of a setting; None: no least one is defined."""
    low, _, high = row.valid.strip("[]").partition(",...")
    greatest = NUMBERS[row.type]
    if row.valid == "null":
        return None, greatest
    return int(low), int(high.strip(",")) if high.strip(",") else greatest


def refuses(config: type[Config], field: Field[Any], value: str) -> bool:
    """Return whether the model refuses a value."""
    try:
        config.from_properties({field.name.replace("_", "."): value})
    except ConfigError:
        return True
    return False
