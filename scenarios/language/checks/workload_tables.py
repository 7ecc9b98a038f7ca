"""Check the workloads: their topics exist, their properties are Kafka's, their keys go together."""

from __future__ import annotations

import re
from typing import Any

from kafkasim.model.config import (
    ConsumerConfig,
    LegacyConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    ShareGroupSettings,
)
from kafkasim.scenarios.language.checks.allowed import check_properties, some
from kafkasim.scenarios.language.nodes import epochs_used
from kafkasim.scenarios.language.tables import (
    ClusterTable,
    ConsumerGroupTable,
    ProcessorTable,
    ProducerTable,
    Scenario,
    ShareGroupTable,
)
from kafkasim.scenarios.language.texts import template

OF_TRANSACTIONS = (
    "epochs_used", "transaction_records", "transaction_time", "abort_share", "when_fenced",
)  # fmt: skip
"""Keys that a producer without a transactional id cannot have."""


def check_workloads(scenario: Scenario) -> None:
    """Check every workload.

    Raises:
        ValueError: for the first mistake.
    """
    topics = [topic.name for topic in scenario.topics]
    later = [o.topic for o in scenario.operations if o.kind == "create-topic" and o.topic]
    for index, workload in enumerate(scenario.workload):
        place = f"workload.{index}"
        if not topics:
            raise ValueError(f"{place}: there is no topic; add a [[topics]] table")
        if workload.kind == "producer":
            named = [workload.topic] if workload.topic is not None else []
            key = f"{place}.topic"
            _check_producer(place, workload)
            _check_audit(place, workload, topics)
        elif workload.kind == "share-group":
            named, key = workload.topics, f"{place}.topics"
            _check_share_group(place, workload, scenario.cluster)
        else:
            named, key = workload.topics, f"{place}.topics"
            old = workload.kind == "consumer-group" and workload.protocol == "zookeeper"
            check_properties(
                f"{place}.config", LegacyConsumerConfig if old else ConsumerConfig, workload.config
            )
        for name in named:
            known = [*topics, *later] if workload.kind == "producer" else topics
            if name not in known:
                raise ValueError(f"{key}: no topic {name!r}; allowed: {some(known)}")
        if workload.kind == "processor":
            _check_processor(place, workload, topics)
        elif workload.kind == "consumer-group":
            _check_poison(place, workload, topics)
            _check_patterns(place, workload)
            _check_store(place, workload)
            _check_audit(place, workload, topics)
            if workload.output is not None:
                _check_output(place, workload, workload.output, topics)
            if workload.protocol == "zookeeper":
                _check_old_consumers(place, workload, scenario.cluster.mode)
    epochs_used(scenario)


def _check_share_group(place: str, table: ShareGroupTable, cluster: ClusterTable) -> None:
    if cluster.features.get("share.version") != 1:
        raise ValueError(f'{place}: share groups need cluster.features = {{ "share.version" = 1 }}')
    config = {"group.id": table.group, **table.config}
    if "share.acknowledgement.mode" in table.config:
        key = "share.acknowledgement.mode"
        raise ValueError(f"{place}.config.{key}: write acknowledge beside config instead")
    check_properties(f"{place}.config", ShareConsumerConfig, config)
    check_properties(f"{place}.group-config", ShareGroupSettings, table.group_config)
    if table.acknowledge == "implicit":
        for name in ("poison_record", "release_share", "reject_share"):
            if getattr(table, name):
                key = name.replace("_", "-")
                raise ValueError(f'{place}.{key}: needs acknowledge = "explicit"')
    if table.release_share + table.reject_share > 1:
        raise ValueError(f"{place}.reject-share: with release-share it is above 1")


def _check_old_consumers(place: str, table: ConsumerGroupTable, mode: str) -> None:
    if mode != "zookeeper":
        raise ValueError(
            f'{place}.protocol: "zookeeper" needs cluster.mode = "zookeeper"; allowed: coordinator'
        )
    if table.commit.startswith("async"):
        raise ValueError(
            f"{place}.commit: an old consumer has no async commit; allowed: auto, sync, first, none"
        )
    if table.app is not None:
        raise ValueError(f'{place}.app: needs protocol = "coordinator"')
    if table.poison_record is not None and table.on_poison == "retry":
        raise ValueError(
            f"{place}.on-poison: an old consumer cannot seek back; allowed: skip, dead-letter"
        )
    for key in ("group.id", "zookeeper.connect"):
        if key in table.config:
            raise ValueError(f"{place}.config.{key}: kafkasim sets this property")


def _check_patterns(place: str, table: ConsumerGroupTable) -> None:
    patterns = {"pattern": table.pattern, "subscription-pattern": table.subscription_pattern}
    given = [name for name, pattern in patterns.items() if pattern is not None]
    if given and table.topics:
        raise ValueError(f"{place}.{given[0]}: does not go with topics; allowed: either of them")
    if len(given) > 1 and table.pattern != table.subscription_pattern:
        raise ValueError(f"{place}.subscription-pattern: it must be the same expression as pattern")
    for name in given:
        pattern = patterns[name]
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"{place}.{name}: {pattern!r} is no expression: {error}") from None
        if table.app is not None:
            raise ValueError(f"{place}.{name}: an application subscribes by itself")
        if table.protocol == "zookeeper":
            raise ValueError(f'{place}.{name}: needs protocol = "coordinator"')


def _check_producer(place: str, table: ProducerTable) -> None:
    _check_config(f"{place}.config", table.config, table.transactional_id is not None)
    texts = {f"headers.{name}": text for name, text in table.headers.items()}
    if table.value is not None:
        texts["value"] = table.value
        if table.value_size != ProducerTable.model_fields["value_size"].default:
            raise ValueError(f"{place}.value-size: the value has the size of its text")
    for name, text in texts.items():
        _check_text(f"{place}.{name}", text)
    if table.app is not None:
        for key in ("transactional_id", "audit", "value"):
            if getattr(table, key) is not None:
                raise ValueError(f"{place}.{key.replace('_', '-')}: the application decides it")
    if table.key_order and table.keys == "none":
        raise ValueError(f"{place}.key-order: needs keys")
    if table.transactional_id is None:
        _refuse_transactional(place, table)


def _check_text(place: str, text: str) -> None:
    """Check a text of values: a word in braces is known."""
    try:
        template(text)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _check_output(
    place: str, table: ProcessorTable | ConsumerGroupTable, output: str, topics: list[str]
) -> None:
    if table.kind == "consumer-group" and table.app is None:
        raise ValueError(f'{place}.output: needs app, or kind = "processor"')
    if output not in topics:
        raise ValueError(f"{place}.output: no topic {output!r}; allowed: {some(topics)}")
    if output in (table.topics or topics[:1]):
        raise ValueError(f"{place}.output: {output!r} is a topic that it reads")


def _check_processor(place: str, table: ProcessorTable, topics: list[str]) -> None:
    _check_output(place, table, table.output, topics)
    transactional = table.guarantee == "exactly-once"
    if not transactional:
        if table.transactional_id is not None:
            raise ValueError(f'{place}.transactional-id: needs guarantee = "exactly-once"')
        _refuse_transactional(place, table, 'guarantee = "exactly-once"')
    if table.config.get("enable.auto.commit") is True:
        raise ValueError(f"{place}.config.enable.auto.commit: a processor commits by itself")
    _check_config(f"{place}.producer-config", table.producer_config, transactional)


def _check_poison(place: str, table: ConsumerGroupTable, topics: list[str]) -> None:
    letters = table.on_poison == "dead-letter"
    if table.poison_record is None and (letters or table.dead_letter is not None):
        raise ValueError(f"{place}.poison-record: is missing")
    if letters and table.dead_letter not in topics:
        asked = f"no topic {table.dead_letter!r}" if table.dead_letter else "is missing"
        raise ValueError(f"{place}.dead-letter: {asked}; allowed: {some(topics)}")
    if table.poison_record is not None and table.handover:
        raise ValueError(f"{place}.poison-record: does not go with handover")


def _check_audit(place: str, table: ProducerTable | ConsumerGroupTable, topics: list[str]) -> None:
    if table.audit is None:
        return
    if table.audit not in topics:
        raise ValueError(f"{place}.audit: no topic {table.audit!r}; allowed: {some(topics)}")
    if table.kind == "producer":
        if table.transactional_id is not None:
            raise ValueError(f"{place}.audit: does not go with transactional-id")
        if table.audit_window < 1:
            raise ValueError(f"{place}.audit-window: must be above 0")
    elif table.store or table.app or table.pattern or table.subscription_pattern:
        raise ValueError(f"{place}.audit: does not go with store, app or patterns")


def _check_store(place: str, table: ConsumerGroupTable) -> None:
    if table.store is None:
        if table.synchronous != "FULL":
            raise ValueError(f"{place}.synchronous: needs store")
        return
    if table.count > 1:
        raise ValueError(f"{place}.store: needs count = 1, because each host has its own database")
    if table.protocol == "zookeeper":
        raise ValueError(f'{place}.store: needs protocol = "coordinator"')
    if table.pattern is not None or table.subscription_pattern is not None:
        raise ValueError(f"{place}.store: needs topics by their names")
    if table.poison_record is not None:
        raise ValueError(f"{place}.store: does not go with poison-record")


def _check_config(place: str, properties: dict[str, Any], transactional: bool) -> None:
    """Check a producer's properties, those with the transactional id too."""
    if "transactional.id" in properties:
        raise ValueError(f"{place}.transactional.id: write transactional-id beside config instead")
    check_properties(place, ProducerConfig, properties)
    if transactional:
        check_properties(place, ProducerConfig, {**properties, "transactional.id": "some"})


def _refuse_transactional(
    place: str, table: ProducerTable | ProcessorTable, needed: str = "transactional-id"
) -> None:
    fields = type(table).model_fields
    for name in OF_TRANSACTIONS:
        if name in fields and getattr(table, name) != fields[name].default:
            raise ValueError(f"{place}.{name.replace('_', '-')}: needs {needed}")
