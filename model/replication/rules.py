"""ReplicationRules: the decisions of replication that Kafka once got wrong or that a KIP changed.

A variant subclasses :class:`ReplicationRules` and overrides single methods; the model itself holds
no switches. Every method states the fault that its override would bring back (facts, section 8).
The methods read the partition they are given and never change it, but for
:meth:`reset_remote_replicas`, whose very effect is the decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.errors import Errors

if TYPE_CHECKING:
    from model.controller.image import BrokerImage
    from model.messages import FetchPartition, FetchPartitionResponse
    from model.replication.fetcher import FetchState
    from model.replication.leader import LeaderPartition as Partition
    from model.replication.replica import RemoteReplica
    from model.storage.log import Log

NONE = Errors.NONE


class ReplicationRules:
    """What Kafka 4.0 does, with the fixes of the fact sheet's section 0.1."""

    # ------------------------------------------------------------------------ leader: ISR and HW

    def may_join_isr(self, partition: Partition, remote: RemoteReplica) -> bool:
        """Whether a caught-up follower may be proposed for the ISR (B06, B24, B25)."""
        leo = remote.leo
        return (
            leo >= partition.log.high_watermark
            and leo >= partition.leader_epoch_start
            and self.is_eligible(partition, remote)
        )

    def is_eligible(self, partition: Partition, remote: RemoteReplica) -> bool:
        """Whether the replica's broker may be in an ISR: KIP-841, KIP-903 (B24, B25)."""
        broker = partition.brokers.get(remote.id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and (remote.broker_epoch == -1 or remote.broker_epoch == broker.epoch)
        )

    def is_caught_up(self, remote: RemoteReplica, leader_end: int, now: int, lag_us: int) -> bool:
        """Whether a follower is within replica.lag.time.max.ms of the leader's end."""
        return remote.leo == leader_end or now - remote.last_caught_up_us <= lag_us

    def out_of_sync(self, partition: Partition, now: int) -> tuple[int, ...]:
        """Return the committed ISR's members to be removed for lag."""
        leader_end = partition.log.log_end_offset
        lag_us = partition.lag_us
        remotes = partition.remotes
        return tuple(
            [
                member
                for member in partition.isr
                if member in remotes
                and not self.is_caught_up(remotes[member], leader_end, now, lag_us)
            ]
        )

    def high_watermark(self, partition: Partition, now: int) -> int:
        """Return the high watermark that the known log ends allow (B18, B20)."""
        if self.high_watermark_is_frozen(partition):
            return partition.log.high_watermark
        leader_end = smallest = partition.log.log_end_offset
        members = self.members_for_high_watermark(partition)
        lag_us = partition.lag_us
        for replica, remote in partition.remotes.items():
            if remote.leo < smallest and (
                replica in members
                or (
                    self.is_caught_up(remote, leader_end, now, lag_us)
                    and self.is_eligible(partition, remote)
                )
            ):
                smallest = remote.leo
        return smallest

    def members_for_high_watermark(self, partition: Partition) -> tuple[int, ...]:
        """Return whose log ends hold the high watermark back: the maximal ISR (B20)."""
        return partition.maximal_isr

    def high_watermark_is_frozen(self, partition: Partition) -> bool:
        """Whether the high watermark stands still below the min ISR (B18, KAFKA-15583)."""
        return len(partition.isr) < partition.min_isr

    def starts_leadership(self, partition: Partition, leader_epoch: int) -> bool:
        """Whether metadata begins a new leadership: only a new leader epoch does (B17)."""
        return leader_epoch > partition.leader_epoch

    def reset_remote_replicas(self, partition: Partition, was_leader: bool, now: int) -> None:
        """Forget what followers had told under an older leader epoch (0.1 c, B05)."""
        isr = partition.isr
        for replica, remote in partition.remotes.items():
            remote.reset(now if replica in isr else 0)

    # ------------------------------------------------------------------- leader: fetch and produce

    def check_leader_epoch(self, requested: int, current: int) -> Errors:
        """Compare a request's leader epoch with ours; −1 asks for no check (B04, KIP-320)."""
        if requested == -1 or requested == current:
            return NONE
        if requested < current:
            return Errors.FENCED_LEADER_EPOCH
        return Errors.UNKNOWN_LEADER_EPOCH

    def is_stale_replica_epoch(
        self, brokers: dict[int, BrokerImage], replica: int, epoch: int
    ) -> bool:
        """Whether a fetch comes from an older incarnation of the follower (KIP-903, B25)."""
        if epoch == -1:
            return False
        broker = brokers.get(replica)
        return broker is not None and epoch < broker.epoch

    def enough_replicas(self, partition: Partition) -> bool:
        """Whether acks=all may be appended: the committed ISR reaches the min ISR."""
        return len(partition.isr) >= partition.min_isr

    def after_append_error(self, partition: Partition) -> Errors:
        """Return the answer to acks=all once its offset is committed."""
        if len(partition.maximal_isr) >= partition.min_isr:
            return NONE
        return Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def required_offset(self, partition: Partition, last_offset: int, duplicate: bool) -> int:
        """Return the high watermark that acks=all waits for, duplicates too (RM:963)."""
        return last_offset + 1

    # ---------------------------------------------------------------------------------- follower

    def accepts_fetch_reply(self, sent: FetchPartition, state: FetchState) -> bool:
        """Whether a reply belongs to the present fetch state (0.1 a; B14, B82)."""
        return (
            sent.fetch_offset == state.fetch_offset
            and sent.current_leader_epoch == state.leader_epoch
        )

    def accepts_batch_epoch(self, batch_epoch: int, fetch_epoch: int) -> bool:
        """Whether a fetched batch may be appended by a fetch of that epoch (0.1 b, B83)."""
        return batch_epoch <= fetch_epoch

    def truncation_offset(
        self, log: Log, leader_epoch: int, leader_end: int, fetch_offset: int
    ) -> int:
        """Return where a diverging follower cuts its log (getOffsetTruncationState)."""
        log_end = log.log_end_offset
        if leader_end == -1:
            return fetch_offset
        if leader_epoch == -1:
            return min(leader_end, log_end)
        epoch, end = log.epochs.end_offset_for(leader_epoch, log_end)
        if epoch == -1 or end == -1:
            return min(leader_end, log_end)
        if epoch != leader_epoch:
            return min(end, log_end)
        return min(end, leader_end, log_end)

    def follower_hw_from_diverging(self, response: FetchPartitionResponse) -> int | None:
        """Return the high watermark to take from a diverging reply: none (B10)."""
        return None
