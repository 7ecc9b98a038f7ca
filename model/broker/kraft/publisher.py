"""Committed metadata on its way into the broker (MetadataLoader, BrokerMetadataPublisher).

The Raft observer hands over committed batches on lane ``raft``; they are applied in order on lane
``metadata``, several at a time when the lane was busy: a delta may span leader epochs, and only the
last state of a partition is acted on. The first publication waits until the controller calls the
broker caught up (RECOVERY: its own registration is applied, so that no new incarnation leads by
what its predecessor was given) and the known end of the log is reached; it loads the logs, and only
then are clients served. The metadata cache is the image itself, so it is in effect before the
partitions change.

A snapshot (KIP-630) replaces the image; what differs from the one before is the delta. The broker
takes snapshots of its own as the controllers do.

Left out: quotas, features other than in image.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.image import MetadataDelta, MetadataImage
from kafkasim.model.controller.common.records import chain_digest
from kafkasim.model.controller.kraft.snapshot import (
    Snapshot,
    SnapshotGenerator,
    image_values,
    load_snapshot,
)
from kafkasim.model.effects import Post
from kafkasim.model.facts import MetadataCommitted
from kafkasim.model.group.runtime.ports import OFFSETS_TOPIC
from kafkasim.model.records import RecordBatch

if TYPE_CHECKING:
    from kafkasim.model.broker.kraft.broker import Broker

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
        self._snapshots = SnapshotGenerator(broker.config, broker.started_us)
        self._waiting: deque[RecordBatch | Snapshot] = deque()
        self._high_watermark = 0
        self._applied = -1
        self._applied_epoch = -1
        self._applied_bytes = 0  # not yet published
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

    def on_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None:
        """Take a snapshot; it is loaded on lane ``metadata``."""
        if not self._waiting:
            self.broker.out.append(Post(LANE, self._apply, None))
        self._waiting.append(Snapshot(end_offset, epoch, values))
        self._high_watermark = max(self._high_watermark, end_offset)

    # ------------------------------------------------------------------------------ lane metadata

    def _apply(self, _: Any, now: int) -> None:
        delta, out = self._delta, self.broker.out
        if self.broker.stopping:
            return
        while self._waiting:
            batch = self._waiting.popleft()
            if type(batch) is Snapshot:
                self._digest = load_snapshot(delta, batch)
                self._applied, self._applied_epoch = batch.end_offset - 1, batch.epoch
                self._applied_bytes = 0
                self._snapshots.reset(now)
            else:
                assert type(batch) is RecordBatch, batch
                delta.apply_batch(batch)
                self._digest = chain_digest(self._digest, batch)
                self._applied, self._applied_epoch = batch.last_offset, batch.leader_epoch
                self._applied_bytes += batch.size
            out.append(MetadataCommitted(self._applied, self._applied_epoch, self._digest))
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
        size, self._applied_bytes = self._applied_bytes, 0
        if broker.owns_raft and self._snapshots.published(size, now):
            values = image_values(self.image, self._digest)
            broker.raft.create_snapshot(self._applied + 1, self._applied_epoch, values, now)

    def _elect_coordinators(self, delta: MetadataDelta, now: int) -> None:
        coordinator = self.broker.coordinator
        for topic_id, topic in delta.deleted_topics.items():
            if topic.name == OFFSETS_TOPIC:
                for number in topic.partitions:
                    coordinator.on_resigned(number, None, now)
            assert topic_id not in self.image.topics, topic
        if delta.deleted_topics and self.published:
            names = tuple([topic.name for topic in delta.deleted_topics.values()])
            coordinator.on_topics_deleted(names, now)
        offsets_topic = self.image.topic_names.get(OFFSETS_TOPIC)
        for (topic_id, number), registration in delta.changed_partitions.items():
            if topic_id == offsets_topic:
                if registration.leader == self.broker.broker_id:
                    coordinator.on_elected(number, registration.leader_epoch, now)
                else:
                    coordinator.on_resigned(number, registration.leader_epoch, now)
