"""Which partitions of its topic a coordinator serves: election, loading, resignation.

Kafka: CoordinatorRuntime.scheduleLoadOperation and scheduleUnloadOperation.
A shard is a coordinator's state of one partition (Kafka: CoordinatorShard):

    elected ──▶ loading: replays the whole log ──▶ active: serves requests ──▶ resigned: dropped

A leader epoch guards each step: an election or a resignation that is older than what the shard has
seen changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from kafkasim.model.coordinator.context import CoordinatorContext
from kafkasim.model.coordinator.loader import CoordinatorLoader, LoadContinues, S
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.facts import CoordinatorLoaded, CoordinatorLoadFailed
from kafkasim.model.records import TopicPartition


class OwnedShards(Generic[S]):
    """The shards of the partitions that this broker leads."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        topic: str,
        new_shard: Callable[[CoordinatorContext], S],
        on_loaded: Callable[[S, int], None],
        on_unloaded: Callable[[S], None],
        load_buffer_size: int,
        load_continues: LoadContinues,
        loaded_fact: Callable[[int, int, bool], Any] = CoordinatorLoaded,
    ) -> None:
        """``on_loaded(shard, now)`` and ``on_unloaded(shard)`` run when serving begins and ends.

        ``loaded_fact(partition, leader_epoch, loaded)`` is what the trace gets then.
        """
        self._loaded_fact = loaded_fact
        self.runtime = runtime
        self.topic = topic
        self.by_partition: dict[int, S] = {}  # those that load, too
        self._new_shard = new_shard
        self._on_loaded = on_loaded
        self._on_unloaded = on_unloaded
        self._loader = CoordinatorLoader(
            runtime, load_buffer_size, load_continues, self._owns, self._on_load_end
        )

    def active(self) -> list[S]:
        """Return the shards that serve requests, by partition."""
        shards = [self.by_partition[partition] for partition in sorted(self.by_partition)]
        return [shard for shard in shards if shard.context.is_active]

    def on_elected(self, partition: int, leader_epoch: int, now: int) -> None:
        """Take a partition over and load it on the loader's lane. Callable on any lane.

        If this broker is elected again without a resignation in between, the shard stays as it is.
        """
        shard = self.by_partition.get(partition)
        if shard is None:
            runtime, tp = self.runtime, TopicPartition(self.topic, partition)
            context = CoordinatorContext(tp, leader_epoch, runtime.lane_of(partition))
            shard = self.by_partition[partition] = self._new_shard(context)
            runtime.out.append(Post(runtime.loader_lane, self._load, shard))
        elif shard.context.epoch < leader_epoch:
            shard.context.epoch = leader_epoch
            if shard.context.is_active:
                self.runtime.out.append(self._loaded_fact(partition, leader_epoch, True))

    def on_resigned(self, partition: int, leader_epoch: int | None, now: int) -> None:
        """Give a partition up because of a higher epoch, or for good (None). Callable on any lane.

        Everything that waits for a commit is answered with NOT_COORDINATOR.
        """
        shard = self.by_partition.get(partition)
        if shard is None:
            return
        context = shard.context
        if leader_epoch is not None and leader_epoch <= context.epoch:
            return
        del self.by_partition[partition]
        was_active, context.is_active = context.is_active, False
        self.runtime.fail_deferred(context, Errors.NOT_COORDINATOR, now)
        if was_active:
            self._on_unloaded(shard)
            epoch = context.epoch if leader_epoch is None else leader_epoch
            self.runtime.out.append(self._loaded_fact(partition, epoch, False))

    def on_high_watermark(self, partition: int, offset: int, now: int) -> None:
        """Answer what the partition's high watermark has passed. On its lane."""
        shard = self.by_partition.get(partition)
        if shard is not None and shard.context.is_active:
            self.runtime.commit_up_to(shard.context, offset, now)

    def _load(self, shard: S, now: int) -> None:
        self._loader.load(shard, now)

    def _owns(self, shard: S) -> bool:
        return self.by_partition.get(shard.context.partition) is shard

    def _on_load_end(self, shard: S, failure: str, now: int) -> None:
        """Serve the partition; after a failure nobody does until the next election."""
        context = shard.context
        if failure:
            del self.by_partition[context.partition]
            where = (self.topic, context.partition, context.epoch, context.last_written)
            self.runtime.out.append(CoordinatorLoadFailed(*where, failure))
            return
        log = self.runtime.log
        context.last_committed = min(log.high_watermark(context.tp), context.last_written)
        context.is_active = True
        self.runtime.out.append(self._loaded_fact(context.partition, context.epoch, True))
        self._on_loaded(shard, now)
