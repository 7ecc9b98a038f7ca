"""MetadataLoader: committed metadata on its way from the Raft client into the metadata cache.

The Raft client hands over committed batches and snapshots on lane ``raft``. The loader applies them
in order on lane ``metadata``, several at a time when the lane was busy, so a delta may span leader
epochs. The image is the metadata cache itself: it has changed before the publisher acts on a delta.

The first publication waits for two things: the controller calls the broker caught up (the broker's
own registration is applied then, so that the new incarnation does not lead by what its predecessor
was given), and the loader has reached the known end of the log.

A snapshot (KIP-630) replaces the image; the delta is what differs from the image before. The broker
takes snapshots of its own, as every controller does. Kafka has one loader per process; a combined
node has two here, the broker's and the controller's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafkasim.model.broker.kraft.rules import LifecycleRules
from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.controller.common.deltas.snapshot import (
    Snapshot,
    SnapshotGenerator,
    image_values,
    load_snapshot,
)
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import ACL_RECORDS, chain_digest
from kafkasim.model.effects import Post, Then
from kafkasim.model.facts import MetadataCommitted
from kafkasim.model.records import RecordBatch

if TYPE_CHECKING:
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.config import BrokerConfig

LANE = "metadata"
NOTHING = -1
AT_ONCE = LifecycleRules()

CreateSnapshot: TypeAlias = "Callable[[int, int, list[Any], int], None]"
"""``create(end_offset, epoch, values, now)``: RaftClient.create_snapshot."""


class Publisher(Protocol):
    """Brings the broker to the state of the image (MetadataPublisher)."""

    def take_roles(self, delta: MetadataDelta, first: bool, now: int) -> None:
        """Let the partitions take their roles; their leader epochs may have to become durable."""
        ...

    def publish(self, delta: MetadataDelta, first: bool, now: int) -> None:
        """Act on the rest of what changed; the ``first`` delta holds all that there is."""
        ...


class MetadataLoader:
    """Owns the broker's image; the Raft client's listener."""

    def __init__(
        self,
        out: list[Any],
        incarnation: Incarnation,
        config: BrokerConfig,
        now: int,
        rules: LifecycleRules = AT_ONCE,
    ) -> None:
        self.out = out
        self.rules = rules
        self.incarnation = incarnation
        self.image = MetadataImage()
        self.offset = NOTHING  # heartbeats report it: last published, before that last applied
        self.published = False  # there has been a first publication
        self._published_us = now  # when something was published last
        self._caught_up = False  # says the controller
        self._publisher: Publisher | None = None
        self._create_snapshot: CreateSnapshot | None = None
        self._digest = 0
        self._snapshots = SnapshotGenerator(config, now)
        self._waiting: deque[RecordBatch | Snapshot] = deque()
        self._high_watermark = 0
        self._applied = NOTHING
        self._applied_epoch = NOTHING
        self._unpublished_bytes = 0
        self._taken_apart = 0  # how many entries of the next batch have taken effect already
        self._delta = MetadataDelta(self.image)

    def install(self, publisher: Publisher, create_snapshot: CreateSnapshot | None) -> None:
        """Set who acts on deltas, and who stores snapshots (None: this loader takes none)."""
        self._publisher = publisher
        self._create_snapshot = create_snapshot

    # ---------------------------------------------------------------- the Raft listener, lane raft

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """Do nothing: links ask the Raft client for the leader when they need it."""

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Take committed batches over."""
        idle = not self._waiting
        self._waiting.extend(batches)
        self._high_watermark = high_watermark
        if idle:
            self.out.append(Post(LANE, self._apply, None))

    def on_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None:
        """Take over a snapshot of everything below ``end_offset``."""
        if not self._waiting:
            self.out.append(Post(LANE, self._apply, None))
        self._waiting.append(Snapshot(end_offset, epoch, values))
        self._high_watermark = max(self._high_watermark, end_offset)

    # ------------------------------------------------------------------------------ lane metadata

    def caught_up(self) -> None:
        """Allow the first publication: the controller calls the broker caught up."""
        self.out.append(Post(LANE, self._on_caught_up, None))

    def _on_caught_up(self, _: None, now: int) -> None:
        self._caught_up = True
        self._apply(None, now)

    def _apply(self, _: None, now: int) -> None:
        if self.incarnation.stopping:
            return
        while self._waiting:
            if self._takes_apart(self._waiting[0]):
                return
            self._apply_one(self._waiting.popleft(), now)
            fact = MetadataCommitted(self._applied, self._applied_epoch, self._digest)
            self.out.append(fact)
        if not self.published:
            if self._applied < 0 or self._applied + 1 < self._high_watermark:
                return  # MetadataLoader.stillNeedToCatchUp
            self.offset = self._applied
            if not self._caught_up:
                return
        elif self.rules.gathers_metadata(now - self._published_us):
            return
        self._publish(now)

    def _apply_one(self, batch: RecordBatch | Snapshot, now: int) -> None:
        if type(batch) is Snapshot:
            self._digest = load_snapshot(self._delta, batch)
            self._applied, self._applied_epoch = batch.end_offset - 1, batch.epoch
            self._unpublished_bytes = 0
            self._snapshots.reset(now)
        else:
            assert type(batch) is RecordBatch, batch
            self._delta.apply_batch(batch, self._taken_apart)
            self._taken_apart = 0
            self._digest = chain_digest(self._digest, batch)
            self._applied, self._applied_epoch = batch.last_offset, batch.leader_epoch
            self._unpublished_bytes += batch.size

    def _takes_apart(self, batch: RecordBatch | Snapshot) -> bool:
        """Apply the next of a change's entries, and leave the others, if they go one by one."""
        if self.rules.applies_whole_changes() or type(batch) is Snapshot:
            return False
        assert type(batch) is RecordBatch, batch
        done = self._taken_apart
        change = batch.records[done].value
        if done + 1 == len(batch.records) or type(change) not in ACL_RECORDS:
            return False
        self._delta.apply(change, batch.base_offset + done, batch.leader_epoch)
        self._taken_apart = done + 1
        self.out.append(Post(LANE, self._apply, None))
        return True

    def _publish(self, now: int) -> None:
        assert self._publisher is not None
        delta, self._delta = self._delta, MetadataDelta(self.image)
        first, self.published = not self.published, True
        self._published_us = now
        self._publisher.take_roles(delta, first, now)
        self.out.append(Then(partial(self._go_on, delta, first)))

    def _go_on(self, delta: MetadataDelta, first: bool, now: int) -> None:
        """Publish the rest: this thread has fsynced the leader epochs of its new leaders."""
        if self.incarnation.stopping:
            return
        assert self._publisher is not None
        self._publisher.publish(delta, first, now)
        self.offset = self._applied
        size, self._unpublished_bytes = self._unpublished_bytes, 0
        create = self._create_snapshot
        if create is not None and self._snapshots.published(size, now):
            values = image_values(self.image, self._digest)
            create(self._applied + 1, self._applied_epoch, values, now)
