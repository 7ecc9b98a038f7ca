"""ReplicationRules: the decisions of replication that Kafka once got wrong or that a KIP changed.

The model has no switches: a variant (`scenarios/variants/`) subclasses :class:`ReplicationRules`
and overrides single methods. Each docstring names the fault that an override brings back, by its
number in KAFKA.md, section 8. A rule reads what it is given and changes nothing, except
:meth:`ReplicationRules.reset_remote_replicas`, whose effect is the decision.

The rule which batches a follower appends is ``StorageRules.follower_accepts``.
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
    leader_id: int  # this broker
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
    """The rules of Kafka 4.0, with the fixes that KAFKA.md, 0.1 lists."""

    # ------------------------------------------------------------------------ leader: ISR and HW

    def may_join_isr(self, leader: LeaderView, remote: RemoteReplica) -> bool:
        """Return whether the leader may propose a follower for the ISR (isFollowerInSync).

        Its log must reach the high watermark and the start of this leader epoch.
        """
        leo = remote.leo
        return (
            leo >= leader.log.high_watermark
            and self.reaches_epoch_start(leo, leader.leader_epoch_start)
            and self.is_eligible(leader, remote)
        )

    def reaches_epoch_start(self, follower_end: int, leader_epoch_start: int) -> bool:
        """Return whether a follower's log end reaches the start of this leader epoch (KAFKA-7128).

        A follower below that start may lack records that an earlier leader had exposed (B06).
        """
        return follower_end >= leader_epoch_start

    def is_eligible(self, leader: LeaderView, remote: RemoteReplica) -> bool:
        """Return whether a follower's broker may be in an ISR (isReplicaIsrEligible)."""
        broker = leader.brokers.get(remote.id)
        return (
            broker is not None
            and self.is_active(broker)
            and self.is_same_incarnation(remote.broker_epoch, broker.epoch)
        )

    def is_active(self, broker: BrokerImage) -> bool:
        """Return whether a broker is neither fenced nor in controlled shutdown (KIP-841, B24)."""
        return not broker.fenced and not broker.in_controlled_shutdown

    def is_same_incarnation(self, fetched: int, registered: int) -> bool:
        """Return whether a follower has fetched as the incarnation that is registered (KIP-903,
        B25).

        Both are broker epochs; −1 is unknown. Old followers send none, and ZooKeeper mode has none.
        """
        return fetched == registered or -1 in (fetched, registered)

    def is_caught_up(self, remote: RemoteReplica, leader_end: int, now: int, lag_us: int) -> bool:
        """Return whether a follower is at the leader's log end, or was within ``lag_us`` of now.

        ``lag_us`` is replica.lag.time.max.ms in microseconds (ReplicaState.isCaughtUp). When the
        time alone counted, a silent follower that lacked nothing was removed (KAFKA-7152, B93).
        """
        return remote.leo == leader_end or now - remote.last_caught_up_us <= lag_us

    def out_of_sync(self, leader: LeaderView, now: int) -> tuple[int, ...]:
        """Return the members of the committed ISR that are not caught up (getOutOfSyncReplicas).

        A member that is no replica is among them (isFollowerOutOfSync, KAFKA-9672): a ZooKeeper
        controller takes a replica out of the ISR and out of the replicas in two writes, and a
        leader may put it back between the two.
        """
        leader_end = leader.log.log_end_offset
        lag_us = leader.lag_us
        remotes = leader.remotes
        return tuple(
            [
                member
                for member in leader.isr
                if member != leader.leader_id
                and (
                    member not in remotes
                    or not self.is_caught_up(remotes[member], leader_end, now, lag_us)
                )
            ]
        )

    def high_watermark(self, leader: LeaderView, now: int) -> int:
        """Return the high watermark that the known log ends allow (maybeIncrementLeaderHW).

        It is the smallest log end of the maximal ISR. A caught-up follower outside the ISR holds it
        back, too, if it may join (shouldWaitForReplicaToJoinIsr): else it could never reach it.
        """
        log = leader.log
        leader_end = smallest = log.local.log_end_offset
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
        """Return the replicas whose log ends hold the high watermark back: the maximal ISR.

        The controller may have admitted a proposed replica before the leader hears of it. Without
        that replica the high watermark exposes records that the next leader lacks (B20).
        """
        return leader.maximal_isr

    def high_watermark_is_frozen(self, leader: LeaderView) -> bool:
        """Return whether the high watermark must not advance: the ISR is below min.insync.replicas.

        Otherwise consumers see records that fewer than min.insync.replicas brokers hold
        (KAFKA-15583, B18).
        """
        return self.high_watermark_needs_min_isr() and len(leader.isr) < leader.min_isr

    def high_watermark_needs_min_isr(self) -> bool:
        """Return whether a release asks the high watermark for min.insync.replicas at all.

        It does since 3.7 (KAFKA-15583); what a leader tells of its minimum is by this.
        """
        return True

    def caps_min_isr(self) -> bool:
        """Return whether min.insync.replicas counts as the number of replicas at most.

        It does since 3.7 (Partition.effectiveMinIsr, KAFKA-15583). Before, a topic of one replica
        under a minimum of two takes no batch with acks=all.
        """
        return True

    def advances_after_isr_change(self) -> bool:
        """Return whether a leader looks at its high watermark when its ISR change is answered.

        Who has left holds it back no more. Otherwise it moves with the next fetch by which a
        follower is further than before, and a producer that waits for it sends nothing that would
        bring one (KAFKA-13091, B95).
        """
        return True

    def starts_leadership(self, known_epoch: int, leader_epoch: int) -> bool:
        """Return whether metadata begins a new leadership: only a higher leader epoch does.

        A leader that starts anew at each partition change forgets its followers' progress, and the
        high watermark stands still (KAFKA-13790, B17).
        """
        return leader_epoch > known_epoch

    def stops_replicas_in_shutdown(self) -> bool:
        """Return whether a broker in controlled shutdown stops replicas that are not in the ISR.

        One that fetches on catches up and may be proposed again (isInControlledShutdown; B24).
        """
        return True

    def steps_down(self) -> bool:
        """Return whether a leader ceases to lead when metadata names another one (makeFollower)."""
        return True

    def deletes_replicas(self) -> bool:
        """Return whether a broker stops and deletes a replica that metadata gives to others, or of
        a topic that is gone (ReplicaManager.stopPartitions)."""
        return True

    def reset_remote_replicas(self, leader: LeaderView, was_leader: bool, now: int) -> None:
        """Forget the followers' progress that the leader knew under an older leader epoch.

        A follower may have truncated since. Members of the ISR count as caught up now, which gives
        them replica.lag.time.max.ms to fetch; the others do not. ``was_leader``: this broker led
        the epoch before, too. Kafka then keeps the log ends (KAFKA.md, 0.1 c; B05).
        """
        isr = leader.isr
        for replica, remote in leader.remotes.items():
            remote.reset(now if replica in isr else LONG_AGO)

    def assigns_epoch_at_election(self) -> bool:
        """Return whether a new leader adds its epoch to the epoch cache before it writes anything.

        Without the entry it cannot answer where the epoch before it ended (KAFKA-7415, B07).
        """
        return True

    def isr_member_epoch(self, broker_epoch: int) -> int:
        """Return the broker epoch that AlterPartition carries for a member of the ISR (KIP-903).

        With −1 the controller cannot tell incarnations apart and admits a broker that has restarted
        with an empty log since (B25).
        """
        return broker_epoch

    # ------------------------------------------------------------------- leader: fetch and produce

    def check_leader_epoch(self, requested: int, current: int) -> Errors:
        """Return the error for a request that names another leader epoch (KIP-320, B04).

        ``requested`` is −1 when the client names none: then there is nothing to check.
        """
        if requested == -1 or requested == current:
            return NONE
        if requested < current:
            return Errors.FENCED_LEADER_EPOCH
        return Errors.UNKNOWN_LEADER_EPOCH

    def is_stale_replica_epoch(
        self, brokers: dict[int, BrokerImage], replica: int, epoch: int
    ) -> bool:
        """Return whether a fetch comes from an older incarnation of the follower (KIP-903, B25).

        ``epoch`` is the follower's broker epoch, −1 from an old follower.
        """
        if epoch == -1:
            return False
        broker = brokers.get(replica)
        return broker is not None and epoch < broker.epoch

    def knows_verification(self) -> bool:
        """Return whether this release verifies transactions (KIP-890, part 1; since 3.6).

        Without it there is no transaction.partition.verification.enable, and neither the leader
        nor its log asks whether a batch belongs to an open transaction (KAFKA-14402).
        """
        return True

    def verifies_transactions(self, enabled: bool) -> bool:
        """Return whether leaders ask the coordinator before a transaction's first batch (KIP-890).

        ``enabled`` is transaction.partition.verification.enable. Without the question a batch that
        its transaction's end has overtaken opens a transaction that nobody ends (B46).
        """
        return enabled

    def enough_replicas(self, leader: LeaderView) -> bool:
        """Return whether a batch with acks=all may be appended: the ISR has min.insync.replicas."""
        return len(leader.isr) >= leader.min_isr

    def after_append_error(self, leader: LeaderView) -> Errors:
        """Return the answer to acks=all when the high watermark has reached its offset.

        The ISR may have shrunk since the append; the record stays committed all the same.
        """
        if len(leader.maximal_isr) >= leader.min_isr:
            return NONE
        return Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def required_offset(self, last_offset: int, duplicate: bool) -> int:
        """Return the high watermark that acks=all waits for.

        A duplicate waits, too: its first attempt may not be committed yet (KAFKA.md, 1.7).
        """
        return last_offset + 1

    def lookup_reply(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """Return the answer to OffsetsForLeaderEpoch: an epoch and where it ended (KIP-279).

        Without the epoch (−1) a follower cannot see that the leader never had the epoch it asked
        for, and keeps records that the leader lacks (B03).
        """
        return epoch, end_offset

    def offset_after_failed_read(self) -> int | None:
        """Return the log end to record for a follower whose read failed; None: no change.

        An error says nothing of the follower's log (KAFKA-8400, B12).
        """
        return None

    def skips_diverged_followers(self) -> bool:
        """Return whether the fetch offset of a follower that is told where its log diverged is no
        progress.

        It is the end of a log that the leader has not. Counted as the follower's log end it takes
        records for replicated that the follower lacks (KAFKA-13141, B100).
        """
        return True

    def session_keeps_epoch(self) -> bool:
        """Return whether a fetch session remembers the leader epoch of each partition.

        Otherwise an incremental fetch is not fenced (KAFKA-9338, B13).
        """
        return True

    def answers_once(self) -> bool:
        """Return whether ListOffsets answers a partition once that a request names twice.

        Since 4.0 the answers are collected by partition (ReplicaManager.fetchOffset); before, each
        one that is named has its own (KafkaApis.handleListOffsetRequestV1AndAbove).
        """
        return True

    def fetch_session_shards(self) -> int:
        """Return into how many shards a broker divides its fetch sessions (KAFKA-9401, 3.8)."""
        return 8

    def consumer_bound(self, log: UnifiedLog, isolation_level: int) -> int:
        """Return the offset up to which a consumer may read: the high watermark or, with
        ``isolation_level`` 1 (read_committed), the last stable offset.

        Kafka bounds a read by the position of that offset in its segment. A position that was
        cached before a roll lets a read at the high watermark see the whole new segment
        (KAFKA-9196, KAFKA-9835, B16).
        """
        return log.last_stable_offset if isolation_level else log.high_watermark

    def answers_before_throttle(self) -> bool:
        """Return whether a Produce above its quota is answered at once, and waits then (KIP-219).

        Before 2.0 the answer waited for the throttle time, so a client whose request.timeout.ms was
        over sent the records again (KAFKA-6028, A10).
        """
        return True

    def quota_in_force(self, known: float | None, applied: float | None) -> float | None:
        """Return a client's quota, None for none: that of the metadata, ``applied``.

        ``known`` is the quota that the client had before. Before 2.5 a quota that was removed
        without another one to take its place went on for who was measured (KAFKA-9658, A09).
        """
        return applied

    def fetch_send_delay_us(self, broker_id: int) -> int:
        """Return how many microseconds a broker waits before it sends a follower what it read.

        Kafka sends a slice of the file, so a stalled send carries the bytes that are there by then,
        perhaps of a newer leader epoch (KAFKA-18723, B83). With a delay the records are read again,
        at the same offsets, when it is over.
        """
        return 0

    def may_be_read_from(self, leader: LeaderView, remote: RemoteReplica, offset: int) -> bool:
        """Return whether the leader may send a consumer at ``offset`` to a follower (KIP-392).

        The follower must be in the ISR, alive, and hold the offset. Otherwise the consumer waits
        behind a high watermark that does not advance (B73).
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
        """Return whether a follower learns from its fetches where its log diverged (KIP-595).

        Otherwise it is in lookup mode: it asks for the ends of epochs, truncates, and then fetches
        without a last fetched epoch. B01 to B04, B07 and B13 show in that mode only.
        """
        return True

    def looks_up_epochs(self, log: UnifiedLog) -> bool:
        """Return whether a follower in lookup mode asks its leader where to truncate (KIP-101).

        Otherwise it truncates to its own high watermark, which may be behind what was acknowledged
        (B01, B02). A log without epochs has nothing to ask for.
        """
        return log.epochs.latest_epoch >= 0

    def accepts_lookup_reply(self, sent: OffsetForLeaderEpochPartition, leader_epoch: int) -> bool:
        """Return whether the reply to a lookup may be used: it was sent in this leader epoch.

        ``leader_epoch`` is the epoch that the fetcher follows now (KIP-320).
        """
        return sent.current_leader_epoch == leader_epoch

    def uses_reply_of_removed(self) -> bool:
        """Return whether a reply is used whose partition has left the fetcher (KAFKA-13207, B14).

        The partition may lead by now; such a reply would truncate a leader's log.
        """
        return False

    def accepts_fetch_reply(
        self, sent: FetchPartition, fetch_offset: int, leader_epoch: int
    ) -> bool:
        """Return whether the reply to ``sent`` may be used (KAFKA.md, 0.1 a).

        The fetcher must still stand at the same offset, in the same leader epoch. Kafka compares
        the offset alone (KAFKA-18991, B82).
        """
        return sent.fetch_offset == fetch_offset and sent.current_leader_epoch == leader_epoch

    def empties_short_log(self) -> bool:
        """Return whether a follower whose log ends below the leader's log start begins anew there
        (AbstractFetcherThread.fetchOffsetAndTruncate, truncateFullyAndStartAt)."""
        return True

    def truncation_offset(
        self, log: UnifiedLog, leader_epoch: int, leader_end: int, fetch_offset: int
    ) -> int:
        """Return the offset at which a follower truncates its log (getOffsetTruncationState).

        The leader says that ``leader_epoch`` ended at ``leader_end``; each is −1 if unknown.
        """
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
        """Return whether the follower may fetch after this truncation (KIP-279).

        If its log lacks the leader's epoch, the follower asks again with a lower one.
        """
        if leader_end == -1 or leader_epoch == -1:
            return True
        epoch, end = log.epochs.end_offset_for(leader_epoch, log.log_end_offset)
        return epoch in (-1, leader_epoch) or end == -1

    def follower_hw_from_diverging(self, response: FetchPartitionResponse) -> int | None:
        """Return the high watermark that a follower takes from a reply that says where it diverged.

        None: it keeps its own. The leader's would expose records that the follower is about to
        truncate (KAFKA-14704, B10).
        """
        return None
