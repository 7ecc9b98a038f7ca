"""What a consumer group knows of topics: those it subscribes to, as of its last lookup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kafkasim.model.values import value


@value
class TopicMetadata:
    """A topic as a group's record has it (TopicMetadata)."""

    topic_id: str
    partitions: int
    racks: tuple[tuple[str, ...], ...]  # of the replicas, rising, by partition; (): unknown


class Partition(Protocol):
    """A partition of the metadata image."""

    @property
    def replicas(self) -> tuple[int, ...]: ...


class Broker(Protocol):
    """A registered broker of the metadata image."""

    @property
    def rack(self) -> str | None: ...


class Topic(Protocol):
    """A topic of the metadata image."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> str: ...
    @property
    def partitions(self) -> Mapping[int, Partition]: ...


class TopicsImage(Protocol):
    """The broker's metadata, as far as groups read it."""

    @property
    def offset(self) -> int: ...
    @property
    def group_version(self) -> int: ...
    @property
    def share_version(self) -> int: ...
    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def brokers(self) -> Mapping[int, Broker]: ...
    @property
    def topics(self) -> Mapping[str, Topic]: ...
    @property
    def topic_names(self) -> Mapping[str, str]: ...
    def topic_by_name(self, name: str) -> Topic | None: ...


def describe(
    image: TopicsImage, names: Iterable[str], with_racks: bool
) -> dict[str, TopicMetadata]:
    """Return the metadata of those topics that exist (computeSubscriptionMetadata).

    ``with_racks`` adds the racks of the replicas, as far as brokers have one and are registered
    (Utils.computeTopicHash).
    """
    found = [(name, image.topic_by_name(name)) for name in names]
    return {
        name: TopicMetadata(
            topic.topic_id, len(topic.partitions), _racks(image, topic) if with_racks else ()
        )
        for name, topic in found
        if topic is not None
    }


def _racks(image: TopicsImage, topic: Topic) -> tuple[tuple[str, ...], ...]:
    brokers = image.brokers
    racks = []
    for _, partition in sorted(topic.partitions.items()):
        known = [brokers[each].rack for each in partition.replicas if each in brokers]
        racks.append(tuple(sorted([rack for rack in known if rack is not None])))
    return tuple(racks) if any(racks) else ()
