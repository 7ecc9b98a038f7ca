"""Committed metadata on its way into the broker (MetadataLoader, BrokerMetadataPublisher).

The Raft observer hands over committed batches on lane ``raft``; they are applied in order on lane
``metadata``, several at a time when the lane was busy: a delta may span leader epochs, and only the
last state of a partition is acted on. The first publication waits until the controller calls the
broker caught up (RECOVERY: its own registration is applied, so that no new incarnation leads by
what its predecessor was given) and the known end of the log is reached; it loads the logs, and only
then are clients served. The metadata cache is the image itself, so it is in effect before the
partitions change.

Left out: snapshots (KIP-630), dynamic broker configuration, quotas, features other than in image.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from model.controller.image import MetadataDelta, MetadataImage, chain_digest
from model.effects import Post
from model.facts import MetadataCommitted
from model.group.ports import OFFSETS_TOPIC
from model.records import RecordBatch

if TYPE_CHECKING:
    from model.broker.broker import Broker

LANE = "metadata"


class MetadataPublisher:
    """Owns the broker's image. ``offset`` is what heartbeats report: the last offset published, or
    before the first publication the last one applied."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.image = MetadataImage()
        self.offset = -1
        self.published = False
        self.recovering = False  # the controller has called the broker caught up
        self._digest = 0
        self._waiting: deque[RecordBatch] = deque()
        self._high_watermark = 0
        self._applied = -1
        self._delta = MetadataDelta(self.image)

    # ---------------------------------------------------------------- the Raft listener, lane raft

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """Nothing to do: links ask the Raft client for the leader when they need it."""

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Take committed batches; they are applied on lane ``metadata``."""
        idle = not self._waiting
        self._waiting.extend(batches)
        self._high_watermark = high_watermark
        if idle:
            self.broker.out.append(Post(LANE, self._apply, None))

    # ------------------------------------------------------------------------------ lane metadata

    def _apply(self, _: Any, now: int) -> None:
        delta, out = self._delta, self.broker.out
        if self.broker.stopping:
            return
        while self._waiting:
            batch = self._waiting.popleft()
            delta.apply_batch(batch)
            self._digest = chain_digest(self._digest, batch)
            self._applied = batch.last_offset
            out.append(MetadataCommitted(batch.last_offset, batch.leader_epoch, self._digest))
        if not self.published:
            if self._applied < 0 or self._applied + 1 < self._high_watermark:
                return  # MetadataLoader.stillNeedToCatchUp
            self.offset = self._applied
            if not self.recovering:
                return
        self._delta = MetadataDelta(self.image)
        self._publish(delta, now)

    def recover(self, _: Any, now: int) -> None:
        """The broker is caught up, says the controller: load the logs."""
        self.recovering = True
        self._apply(None, now)

    def _publish(self, delta: MetadataDelta, now: int) -> None:
        broker = self.broker
        broker.replicas.apply_delta(delta, now)
        self._elect_coordinators(delta, now)
        self.offset = self._applied
        if not self.published:
            self.published = True
            broker.on_first_publish(now)

    def _elect_coordinators(self, delta: MetadataDelta, now: int) -> None:
        coordinator = self.broker.coordinator
        for topic_id, topic in delta.deleted_topics.items():
            if topic.name == OFFSETS_TOPIC:
                for number in topic.partitions:
                    coordinator.on_resigned(number, None, now)
            assert topic_id not in self.image.topics, topic
        offsets_topic = self.image.topic_names.get(OFFSETS_TOPIC)
        for (topic_id, number), registration in delta.changed_partitions.items():
            if topic_id == offsets_topic:
                if registration.leader == self.broker.broker_id:
                    coordinator.on_elected(number, registration.leader_epoch, now)
                else:
                    coordinator.on_resigned(number, registration.leader_epoch, now)
