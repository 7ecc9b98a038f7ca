"""BrokerMetadataPublisher: roles, then coordinators, then settings, and at last the new image."""

from __future__ import annotations

from typing import Any

from kafkasim.model.broker.common.coordinators.registry import CoordinatorTopics
from kafkasim.model.broker.kraft.publisher import BrokerMetadataPublisher
from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from tests.model.replica_harness import TOPIC_ID, Node, Trio, registration


class Ears:
    """Who hears of new metadata, each with the settings of the topic's log at that moment."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.heard: list[tuple[str, int]] = []

    def hear(self, what: str) -> Any:
        return lambda *_: self.heard.append((what, self.node.partition.log.config.segment_bytes))


def publisher(node: Node, ears: Ears) -> BrokerMetadataPublisher:
    return BrokerMetadataPublisher(
        node.out,
        1,
        node.image,
        node.replicas,
        CoordinatorTopics(node.out, ()),
        ears.hear("topics changed"),
        ears.hear("partitions deleted"),
        ears.hear("topics deleted"),
        ears.hear("first published"),
    )


def test_roles_are_taken_under_the_settings_before_the_delta() -> None:
    """A leader whose ISR is alone raises its high watermark, though that is too small an ISR now.

    ReplicaManager.applyDelta comes before DynamicConfigPublisher.onMetadataUpdate.
    """
    trio = Trio()
    trio.tell()
    trio.produce(1, 1, acks=1)
    node = trio.nodes[1]
    parts = publisher(node, Ears(node))
    delta = MetadataDelta(node.image)
    delta.changed_configs["t"] = None
    node.image.configs["t"] = {"min.insync.replicas": "2"}
    delta.changed_partitions[TOPIC_ID, 0] = registration(1, 2, 1, isr=(1,))
    delta.former_partitions[TOPIC_ID, 0] = registration(1, 1, 0)
    parts.take_roles(delta, False, trio.now)
    trio.drain(1)
    parts.publish(delta, False, trio.now)
    log = node.partition.log
    assert (log.high_watermark, log.config.min_insync_replicas) == (1, 2)


def test_the_group_coordinator_hears_of_deletions_first_and_of_the_new_image_last() -> None:
    trio = Trio()
    trio.tell()
    node = trio.nodes[1]
    ears = Ears(node)
    delta = MetadataDelta(node.image)
    delta.changed_configs["t"] = None
    node.image.configs["t"] = {"segment.bytes": "2000000"}
    gone = type(node.topic)("gone", "gone-id")
    gone.partitions[0] = registration(1, 1, 0)
    delta.deleted_topics["gone-id"] = gone
    publisher(node, ears).publish(delta, False, trio.now)
    assert ears.heard == [
        ("partitions deleted", 1073741824),
        ("topics deleted", 1073741824),
        ("topics changed", 2000000),
    ]
