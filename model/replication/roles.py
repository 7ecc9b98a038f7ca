"""RoleChanges: metadata turned into the roles of partitions.

Models ReplicaManager.becomeLeaderOrFollower, applyLocalLeadersDelta, applyLocalFollowersDelta,
getOrCreatePartition and stopPartitions. Leaders come first, then followers; of a delta that spans
several leader epochs only the last state is seen.

Left out: stray logs (their files stay unused).
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, TypeAlias

from kafkasim.model.directories import MIGRATING
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.partitions.leader_state import LeaderState
from kafkasim.model.replication.partitions.partition import READS, Partition
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import MetadataImage, PartitionRegistration
    from kafkasim.model.replication.fetching.fetchers import ReplicaFetchers
    from kafkasim.model.replication.logs.log_manager import LogManager
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.partitions.ports import PartitionContext
    from kafkasim.model.replication.ports import BrokerProcess

PartitionStates: TypeAlias = "dict[TopicPartition, tuple[str, PartitionRegistration]]"
"""Partition states as they arrive: topic id and registration."""

Failures: TypeAlias = dict[TopicPartition, Errors]
"""The partitions that could not take their role: KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID."""


class RoleChanges:
    """Creates, leads, follows and stops partitions as the metadata says."""

    def __init__(
        self,
        process: BrokerProcess,
        image: MetadataImage,
        hosted: HostedPartitions,
        context: PartitionContext,
        logs: LogManager,
        fetchers: ReplicaFetchers,
    ) -> None:
        self._process = process
        self._image = image
        self._hosted = hosted
        self._context = context
        self._logs = logs
        self._fetchers = fetchers
        # A replica that leaves the ISR, or has no leader, is fetched no more (ReplicaManager
        # .isInControlledShutdown). ZooKeeper's controller sends StopReplica for it instead.
        self.in_controlled_shutdown = False

    def become_leader_or_follower(
        self,
        states: PartitionStates,
        now: int,
        new: Container[TopicPartition] = (),
        leaderless: Container[TopicPartition] = (),
    ) -> Failures:
        """Apply partition states that name this broker as a replica.

        A state with an older partition epoch than the known one is ignored. ``new``: partitions
        that have no log anywhere yet (LeaderAndIsr's isNew). ``leaderless``: those that get a log
        and keep their role, because no broker that is alive leads them (makeFollowers).
        """
        leaders: PartitionStates = {}
        followers: PartitionStates = {}
        for tp, state in states.items():
            chosen = leaders if state[1].leader == self._process.broker_id else followers
            chosen[tp] = state
        failed: Failures = {}
        for tp in leaders:
            self._fetchers.remove(tp)
        for tp in leaders:
            partition = self._get_or_create(tp, *leaders[tp], tp in new, failed, now)
            if partition is not None:
                partition.untold = ()
                self._make_leader(partition, leaders[tp][1], failed, now)
        started: list[Partition] = []
        for tp in followers:
            partition = self._get_or_create(tp, *followers[tp], tp in new, failed, now)
            if partition is None or tp in leaderless:
                continue
            topic_id, registration = followers[tp]
            if registration.leader_epoch != partition.leader_epoch:
                partition.untold = READS
            starts = self._make_follower(partition, registration, now)
            if self.in_controlled_shutdown and self._leaves_at_shutdown(registration):
                self.stop(tp, topic_id, now, delete=False)
            elif starts:
                started.append(partition)
        for partition in started:
            self._fetchers.add(partition, now)
        self._fetchers.stop_idle(now)
        return failed

    def _make_leader(
        self, partition: Partition, registration: PartitionRegistration, failed: Failures, now: int
    ) -> None:
        try:
            partition.make_leader(registration, now)
        except DiskError as error:
            failed[partition.tp] = Errors.KAFKA_STORAGE_ERROR
            partition.mark_offline()
            self._process.log_dir_failed(error, now)

    def _make_follower(
        self, partition: Partition, registration: PartitionRegistration, now: int
    ) -> bool:
        """Let a partition follow; return whether to start fetching it from its leader."""
        # Requests may wait from an earlier leadership, even one that never took effect.
        if partition.leading and not self._context.rules.steps_down():
            return False
        waits = partition.leading or partition.tp in self._context.locks.held
        new_epoch = partition.make_follower(registration)
        if new_epoch:
            self._fetchers.remove(partition.tp)
            waits = waits or bool(partition.delayed.consumer_fetches)
        if waits:
            partition.delayed.leadership_ended(Errors.NOT_LEADER_OR_FOLLOWER, now)
        return new_epoch and registration.leader != -1

    def _leaves_at_shutdown(self, registration: PartitionRegistration) -> bool:
        in_sync = registration.leader != -1 and self._process.broker_id in registration.isr
        return not in_sync and self._context.rules.stops_replicas_in_shutdown()

    def _get_or_create(
        self,
        tp: TopicPartition,
        topic_id: str,
        registration: PartitionRegistration,
        is_new: bool,
        failed: Failures,
        now: int,
    ) -> Partition | None:
        """Return the partition; open its log if need be (getOrCreatePartition)."""
        hosted = self._hosted
        partition = hosted.online.get(tp)
        if partition is None or (partition.offline and partition.topic_id != topic_id):
            overrides = self._image.configs.get(tp.topic, {})
            directory = self._wanted_directory(registration, is_new)
            log = self._logs.open(tp, topic_id, overrides, now, directory)
            if log is None:
                failed[tp] = Errors.KAFKA_STORAGE_ERROR
                hosted.offline[tp] = None
                return None
            hosted.offline.pop(tp, None)
            partition = hosted.online[tp] = Partition(self._context, tp, topic_id, log)
        elif partition.offline:
            failed[tp] = Errors.KAFKA_STORAGE_ERROR
            return None
        elif partition.topic_id != topic_id:
            failed[tp] = Errors.INCONSISTENT_TOPIC_ID
            return None
        return partition

    def _wanted_directory(self, registration: PartitionRegistration, is_new: bool) -> str | None:
        """Return the id of the directory that a log is to be opened in; None: in any.

        Without directories in the metadata there may be a log in one that failed: MIGRATING.
        """
        if is_new:
            return None
        if registration.directories:
            return registration.directory(self._process.broker_id)
        return MIGRATING

    def stop(self, tp: TopicPartition, topic_id: str, now: int, delete: bool = True) -> None:
        """Stop serving and fetching a partition (stopPartitions); ``delete`` its log, too.

        Without ``delete`` the replica stays hosted, with no role until the next state. After the
        last one the caller calls :meth:`checkpoint_deletions`.
        """
        self._hosted.offline.pop(tp, None)
        partition = self._hosted.online.get(tp)
        if partition is None or partition.topic_id != topic_id:
            return
        partition.untold = READS
        partition.delayed.mark_dirty()
        if delete and not self._context.rules.deletes_replicas():
            return
        self._fetchers.remove(tp)
        partition.stop_leading()
        partition.delayed.leadership_ended(Errors.NOT_LEADER_OR_FOLLOWER, now)
        if not delete:
            return
        if isinstance(partition.role, LeaderState):
            partition.role.end()  # Partition.delete: no answer to a proposal is taken any more
        delayed = partition.delayed
        for entry in [*delayed.session_entries, *delayed.consumer_entries]:
            entry.detach()
        if partition.offline:
            return
        del self._hosted.online[tp]
        self._logs.delete(partition, now)

    def checkpoint_deletions(self, now: int) -> None:
        """Let the checkpoints no longer name the logs that :meth:`stop` has deleted."""
        self._logs.checkpoint_deletions(now)
