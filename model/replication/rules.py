"""ReplicationRules: the decisions of replication that Kafka once got wrong or that a KIP changed.

A variant subclasses :class:`ReplicationRules` and overrides single methods; the model itself holds
no switches. Every method states the fault that its override would bring back (facts, section 8).
The methods read the partition they are given and never change it, but for
:meth:`reset_remote_replicas`, whose very effect is the decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkasim.model.errors import Errors
from kafkasim.model.replication.partitions.remote_replica import LONG_AGO

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import BrokerImage
    from kafkasim.model.messages import (
        FetchPartition,
        FetchPartitionResponse,
        OffsetForLeaderEpochPartition,
    )
    from kafkasim.model.replication.partitions.remote_replica import RemoteReplica
    from kafkasim.model.storage.log.unified_log import UnifiedLog

NONE = Errors.NONE


class LeaderView(Protocol):
    """What a rule may read of a partition that this broker leads."""

    log: UnifiedLog
    leader_epoch_start: int  # the log end offset when the leadership began
    isr: tuple[int, ...]  # as the controller committed it last
    maximal_isr: tuple[int, ...]  # with whoever is proposed to join, and still with who is to leave
    remotes: dict[int, RemoteReplica]  # the other replicas, by broker
    brokers: dict[int, BrokerImage]  # the metadata cache's
    lag_us: int  # replica.lag.time.max.ms

    @property
    def min_isr(self) -> int:
        """The effective min.insync.replicas."""
        ...


class ReplicationRules:
    """What Kafka 4.0 does, with the fixes of the fact sheet's section 0.1."""

    # ------------------------------------------------------------------------ leader: ISR and HW

    def may_join_isr(self, leader: LeaderView, remote: RemoteReplica) -> bool:
        """Whether a caught-up follower may be proposed for the ISR (B06, B24, B25)."""
        leo = remote.leo
        return (
            leo >= leader.log.high_watermark
            and leo >= leader.leader_epoch_start
            and self.is_eligible(leader, remote)
        )

    def is_eligible(self, leader: LeaderView, remote: RemoteReplica) -> bool:
        """Whether the replica's broker may be in an ISR: KIP-841, KIP-903 (B24, B25)."""
        broker = leader.brokers.get(remote.id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            # −1: not known, there by an old follower, here always in ZooKeeper mode
            and (remote.broker_epoch == broker.epoch or -1 in (remote.broker_epoch, broker.epoch))
        )

    def is_caught_up(self, remote: RemoteReplica, leader_end: int, now: int, lag_us: int) -> bool:
        """Whether a follower is within replica.lag.time.max.ms of the leader's end."""
        return remote.leo == leader_end or now - remote.last_caught_up_us <= lag_us

    def out_of_sync(self, leader: LeaderView, now: int) -> tuple[int, ...]:
        """Return the committed ISR's members to be removed for lag."""
        leader_end = leader.log.log_end_offset
        lag_us = leader.lag_us
        remotes = leader.remotes
        return tuple(
            [
                member
                for member in leader.isr
                if member in remotes
                and not self.is_caught_up(remotes[member], leader_end, now, lag_us)
            ]
        )

    def high_watermark(self, leader: LeaderView, now: int) -> int:
        """Return the high watermark that the known log ends allow (B18, B20)."""
        log = leader.log
        leader_end = smallest = log.log_end_offset
        members: tuple[int, ...] | None = None
        for replica, remote in leader.remotes.items():
            if remote.leo < smallest:
                if members is None:
                    members = self.members_for_high_watermark(leader)
                if replica in members or (
                    self.is_caught_up(remote, leader_end, now, leader.lag_us)
                    and self.is_eligible(leader, remote)
                ):
                    smallest = remote.leo
        if smallest > log.high_watermark and self.high_watermark_is_frozen(leader):
            return log.high_watermark
        return smallest

    def members_for_high_watermark(self, leader: LeaderView) -> tuple[int, ...]:
        """Return whose log ends hold the high watermark back: the maximal ISR (B20)."""
        return leader.maximal_isr

    def high_watermark_is_frozen(self, leader: LeaderView) -> bool:
        """Whether the high watermark stands still below the min ISR (B18, KAFKA-15583)."""
        return len(leader.isr) < leader.min_isr

    def starts_leadership(self, known_epoch: int, leader_epoch: int) -> bool:
        """Whether metadata begins a new leadership: only a new leader epoch does (B17)."""
        return leader_epoch > known_epoch

    def reset_remote_replicas(self, leader: LeaderView, was_leader: bool, now: int) -> None:
        """Forget what followers had told under an older leader epoch (0.1 c, B05)."""
        isr = leader.isr
        for replica, remote in leader.remotes.items():
            remote.reset(now if replica in isr else LONG_AGO)

    def assigns_epoch_at_election(self) -> bool:
        """Whether a new leader records (epoch, LEO) before it writes (KAFKA-7415, B07)."""
        return True

    def isr_member_epoch(self, broker_epoch: int) -> int:
        """Return the broker epoch that AlterPartition names for a member (KIP-903, B25).

        −1 says nothing: the controller then takes whatever incarnation is registered.
        """
        return broker_epoch

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

    def enough_replicas(self, leader: LeaderView) -> bool:
        """Whether acks=all may be appended: the committed ISR reaches the min ISR."""
        return len(leader.isr) >= leader.min_isr

    def after_append_error(self, leader: LeaderView) -> Errors:
        """Return the answer to acks=all once its offset is committed."""
        if len(leader.maximal_isr) >= leader.min_isr:
            return NONE
        return Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def required_offset(self, last_offset: int, duplicate: bool) -> int:
        """Return the high watermark that acks=all waits for, duplicates too (RM:963)."""
        return last_offset + 1

    def lookup_reply(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """Return what OffsetsForLeaderEpoch answers: which epoch ended, and where (KIP-279, B03).

        Without the epoch (−1) a follower cannot see that the leader never had the one it asked for.
        """
        return epoch, end_offset

    def offset_after_failed_read(self) -> int | None:
        """Return the offset that a failed read tells of the follower: none (KAFKA-8400, B12)."""
        return None

    def session_keeps_epoch(self) -> bool:
        """Whether an incremental session remembers the leader epoch (KAFKA-9338, B13)."""
        return True

    def consumer_bound(self, log: UnifiedLog, isolation_level: int) -> int:
        """Return up to where a consumer may read: HW, or LSO, as it is now (B16).

        Kafka bounds the read by the position of the HW in its segment; a position that was cached
        before a roll lets a read at the HW see the whole new segment (KAFKA-9196, KAFKA-9835).
        """
        return log.last_stable_offset if isolation_level else log.high_watermark

    def fetch_send_delay_us(self, broker_id: int) -> int:
        """Return how long after a follower's read a broker sends its bytes: at once (B83).

        Kafka sends a slice of the file, so a stalled send carries what stands there by then. With
        a delay the answer's records are read again, at the same offsets, when it is over.
        """
        return 0

    def may_be_read_from(self, leader: LeaderView, remote: RemoteReplica, offset: int) -> bool:
        """Whether a consumer at ``offset`` may be sent to a follower (KIP-392, B73).

        Only to one in the ISR whose broker is alive, else it is stuck behind that one's HW.
        """
        broker = leader.brokers.get(remote.id)
        return (
            remote.id in leader.isr
            and broker is not None
            and not broker.fenced
            and remote.log_start_offset <= offset <= remote.leo
        )

    # ---------------------------------------------------------------------------------- follower

    def truncates_on_fetch(self, log: UnifiedLog) -> bool:
        """Whether a follower finds out by its fetches where it diverged (KIP-595).

        Else it is in lookup mode: it asks for epochs and truncates first, and its fetches carry no
        last fetched epoch. B01–B04, B07 and B13 show in that mode only.
        """
        return True

    def looks_up_epochs(self, log: UnifiedLog) -> bool:
        """Whether lookup mode asks the leader where to cut (KIP-101); else at the HW (B01, B02).

        A log without epochs has nothing to ask for.
        """
        return log.epochs.latest_epoch >= 0

    def accepts_lookup_reply(self, sent: OffsetForLeaderEpochPartition, leader_epoch: int) -> bool:
        """Whether an OffsetsForLeaderEpoch reply belongs to the present leader epoch (KIP-320)."""
        return sent.current_leader_epoch == leader_epoch

    def uses_reply_of_removed(self) -> bool:
        """Whether a reply counts whose partition left the fetcher meanwhile (KAFKA-13207, B14)."""
        return False

    def accepts_fetch_reply(
        self, sent: FetchPartition, fetch_offset: int, leader_epoch: int
    ) -> bool:
        """Whether a reply belongs to the present fetch state (0.1 a; B14, B82)."""
        return sent.fetch_offset == fetch_offset and sent.current_leader_epoch == leader_epoch

    def truncation_offset(
        self, log: UnifiedLog, leader_epoch: int, leader_end: int, fetch_offset: int
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

    def truncation_is_complete(self, log: UnifiedLog, leader_epoch: int, leader_end: int) -> bool:
        """Whether one cut is enough: not while the leader's epoch is unknown here (KIP-279)."""
        if leader_end == -1 or leader_epoch == -1:
            return True
        epoch, end = log.epochs.end_offset_for(leader_epoch, log.log_end_offset)
        return epoch in (-1, leader_epoch) or end == -1

    def follower_hw_from_diverging(self, response: FetchPartitionResponse) -> int | None:
        """Return the high watermark to take from a diverging reply: none (B10)."""
        return None
