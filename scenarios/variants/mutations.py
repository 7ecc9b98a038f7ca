"""Mutations: variants that remove one rule each, to prove that an invariant or a check notices.

They are not bugs that Kafka had. Each removes a rule that a reader might think superfluous.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.client.rules import ClientRules
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.scenarios.variants.bugs.share_answers import SHARES
from kafkasim.scenarios.variants.harm import HARM
from kafkasim.scenarios.variants.variant import Variant


class HighWatermarkIgnoresFollowers(ReplicationRules):
    """The leader's high watermark is its log end, whatever its followers have fetched."""

    def high_watermark(self, leader: Any, now: int) -> int:
        return int(leader.log.log_end_offset)


class IsrExpandsUnchecked(ReplicationRules):
    """Any eligible follower that fetches joins the ISR, however far it is behind."""

    def may_join_isr(self, leader: Any, remote: Any) -> bool:
        return self.is_eligible(leader, remote)


class NoTruncation(ReplicationRules):
    """A diverging follower does not truncate, and the leader serves it from there."""

    def truncation_offset(
        self, log: Any, leader_epoch: int, leader_end: int, fetch_offset: int
    ) -> int:
        return int(log.log_end_offset)


class ShortLogKept(ReplicationRules):
    """A follower whose log ends below the leader's log start goes on there with the log it has."""

    def empties_short_log(self) -> bool:
        return False


class NoEpochFencing(ReplicationRules):
    """Replicas accept requests and responses of another leader epoch."""

    def check_leader_epoch(self, requested: int, current: int) -> Errors:
        return Errors.NONE

    def accepts_fetch_reply(self, sent: Any, fetch_offset: int, leader_epoch: int) -> bool:
        return bool(sent.fetch_offset == fetch_offset)


class AppendsAnyEpoch(StorageRules):
    """A follower's log takes batches of any leader epoch."""

    def follower_accepts(self, batch_epoch: int, leader_epoch: int) -> bool:
        return True


class KeepsElr(ControllerRules):
    """A change of min.insync.replicas leaves the ELR as it is."""

    def clears_elr(self) -> bool:
        return False


class NoMinIsr(ReplicationRules):
    """acks=all is acknowledged by an ISR of any size."""

    def enough_replicas(self, leader: Any) -> bool:
        return True

    def after_append_error(self, leader: Any) -> Errors:
        return Errors.NONE

    def high_watermark_is_frozen(self, leader: Any) -> bool:
        return False


class VoteNotDurable(RaftRules):
    """A voter answers before its vote is on disk."""

    def persist_vote_before_reply(self, store: Any, state: Any, out: list[Any]) -> None:
        store.write(state)


class CommitsAlone(RaftRules):
    """The Raft leader commits what it has flushed, whatever the voters have fetched."""

    def high_watermark(self, end_offsets: Any, epoch_start: int, current: int) -> int:
        return int(max([*end_offsets, current]))


class LoadsOneBuffer(GroupRules):
    """A coordinator takes what fits its load buffer for the whole log."""

    def load_continues(self, offset: int, start: int, end: int) -> bool:
        """Return True at the log start only."""
        return offset == start < end


class NoGenerationCheck(GroupRules):
    """The coordinator accepts commits of an older generation or of a removed member."""

    def check_generation(self, group: Any, generation: int) -> Errors:
        return Errors.NONE

    def check_committer(self, group: Any, member_id: str, instance_id: str | None) -> Errors:
        return Errors.NONE


class EveryRejoinRebalances(GroupRules):
    """A member that asks a stable group for the answer it has missed starts a rebalance."""

    def rejoin_rebalances(self, leads: bool, same_protocols: bool) -> bool:
        return True


class WaitsThreeTimesAsLong(GroupRules):
    """A rebalance waits for missing members three times as long as they may stay away."""

    def join_timeout_ms(self, rebalance_timeout_ms: int) -> int:
        return 3 * rebalance_timeout_ms


class KeepsLostPartitions(ClientRules):
    """An old consumer takes what it owned in an expired session for its own."""

    def keeps_partitions_of_lost_session(self) -> bool:
        return True


class HeartbeatsUnheard(GroupRules):
    """A heartbeat does not renew its member's session."""

    def heartbeat_renews_session(self, state: Any) -> bool:
        return False

    def consumer_heartbeat_renews_session(self) -> bool:
        return False


class OffsetsExpireAtOnce(GroupRules):
    """Each scan drops all offsets, of groups with members too."""

    def offsets_may_expire(self, state: Any, protocol_type: str | None, subscribed: bool) -> bool:
        return True

    def offset_expired(self, start_ms: int, now_ms: int, retention_ms: int) -> bool:
        return True


class HandsOverAtOnce(ClientRules):
    """The cooperative assignor gives a partition to its next owner while the last one has it."""

    def withholds_owned_partitions(self) -> bool:
        return False


class DropsRestOfBatch(ClientRules):
    """What max.poll.records leaves of a batch is not returned."""

    def resumes_within_batch(self) -> bool:
        return False


class NewPartitionsUnseen(ClientRules):
    """The leader of a classic group goes by the partitions that topics had when it assigned."""

    def leader_watches_topics(self) -> bool:
        return False


class NeverResigns(GroupRules):
    """A coordinator goes on when another broker leads its partition."""

    def resigns_when_deposed(self) -> bool:
        return False


class NoSequenceCheck(StorageRules):
    """The broker appends an idempotent producer's batch whatever its sequence."""

    def find_duplicate(self, entry: Any, batch: Any) -> None:
        return None

    def check_sequence(self, entry: Any, batch: Any) -> Errors:
        return Errors.NONE


class StartEpochDropped(StorageRules):
    """The epoch that covers a new log start leaves the leader-epoch cache with those before it."""

    def keeps_epoch_of_log_start(self) -> bool:
        return False


class KeysCollide(StorageRules):
    """The cleaner takes two keys of one length for the same."""

    def key_in_map(self, key: Any) -> Any:
        return len(str(key))


class AnyControllerEpoch(ZkControllerRules):
    """Brokers obey every controller, whatever its epoch."""

    def accepts_controller_epoch(self, epoch: int, largest: int) -> bool:
        return True


class BouncesUnseen(ZkControllerRules):
    """The controller compares broker ids only, so it misses a broker's new registration."""

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        return False


class ReassignmentsForgotten(ZkControllerRules):
    """A new controller does not continue reassignments that an API call began."""

    def resumes_reassignment(self, adding: tuple[int, ...], removing: tuple[int, ...]) -> bool:
        return False


class DecisionsForgotten(TransactionRules):
    """A coordinator that loads a decision sends no markers."""

    def resends_markers_at_load(self) -> bool:
        return False


MUTATIONS: tuple[Variant, ...] = (
    Variant(
        "M01-hw-ignores-followers", "KIP-101", (HighWatermarkIgnoresFollowers,),
        "ISRDATA", "steady",
        "The high watermark passes only records that the whole ISR holds.",
    ),
    Variant(
        "M02-isr-expands-unchecked", "KAFKA-7128", (IsrExpandsUnchecked,),
        "ISRDATA", "lagging-joiner",
        "A member of the ISR holds everything below the high watermark.",
    ),
    Variant(
        "M03-no-truncation", "KIP-101", (NoTruncation,),
        "missing:truncated", "deposed-leader",
        "A follower truncates the records that its leader does not have.",
    ),
    Variant(
        "M04-no-epoch-fencing", "KIP-320", (NoEpochFencing, AppendsAnyEpoch),
        "ISRDATA", "two-epochs-late",
        "A leader refuses a late fetch of an older leader epoch.",
    ),
    Variant(
        "M05-no-min-isr", "KIP-966", (NoMinIsr,),
        "MINISR", "last-replica",
        "acks=all needs min.insync.replicas replicas in the ISR.",
    ),
    Variant(
        "M06-vote-not-durable", "KIP-595", (VoteNotDurable,),
        "ONELEADER", "forgotten-vote",
        "A voter votes once in an epoch, across restarts.",
    ),
    Variant(
        "M07-no-generation-check", "KAFKA-1716", (NoGenerationCheck,),
        "stale-commit", "zombie-consumer",
        "A removed member cannot overwrite the new owner's commit.",
    ),
    Variant(
        "M08-no-sequence-check", "KIP-98", (NoSequenceCheck,),
        "NODUP", "flaky-network",
        "A retried batch is stored once.",
    ),
    Variant(
        "M09-commits-alone", "KIP-595", (CommitsAlone,),
        "META", "controller-split-brain",
        "Committed metadata is on a majority of the voters.",
    ),
    Variant(
        "M10-short-log-kept", "AbstractFetcherThread.fetchOffsetAndTruncate", (ShortLogKept,),
        "no-progress", "delete-records-follower-away",
        "A follower whose log ends below the leader's log start begins anew there.",
    ),
    Variant(
        "M20-zk-any-controller-epoch", "ReplicaManager.becomeLeaderOrFollower",
        (AnyControllerEpoch,),
        "META", "zk-controller-gc-pause",
        "A broker obeys the newest controller that it knows, and no older one.",
    ),
    Variant(
        "M21-zk-no-bounce", "KAFKA-1120", (BouncesUnseen,),
        "no-progress", "zk-fast-restart",
        "The controller sends a restarted broker its replicas again.",
    ),
    Variant(
        "M22-zk-reassignment-forgotten", "KIP-455", (ReassignmentsForgotten,),
        "LIVE", "zk-reassign-failover",
        "A new controller continues the reassignments that it finds.",
    ),
    Variant(
        "M23-elr-kept", "ConfigurationControlManager.createClearElrRecordsAsNeeded", (KeepsElr,),
        "ACKED", "elr-min-isr-lowered",
        "A change of min.insync.replicas clears the ELR.",
    ),
    Variant(
        "M28-loads-one-buffer", "CoordinatorLoaderImpl.doLoad", (LoadsOneBuffer,),
        "OFFSET", "coordinator-load-slow",
        "A coordinator loads the whole log of its partition.",
    ),
    Variant(
        "M40-every-rejoin-rebalances", "GroupMetadataManager.classicGroupJoinExistingMember",
        (EveryRejoinRebalances,),
        "needless-rebalance", "join-answer-lost",
        "A member that has missed an answer gets it again, without a rebalance.",
    ),
    Variant(
        "M41-rebalance-waits-on", "KIP-62", (WaitsThreeTimesAsLong,),
        "long-rebalance", "member-never-rejoins",
        "A rebalance waits for a member for its rebalance timeout and no longer.",
    ),
    Variant(
        "M42-heartbeats-unheard", "GroupMetadataManager.classicGroupHeartbeat",
        (HeartbeatsUnheard,),
        "needless-eviction", "quiet-group",
        "A member that is heard within each session stays.",
    ),
    Variant(
        "M43-offsets-expire-at-once", "KIP-211", (OffsetsExpireAtOnce,),
        "vanished-offset", "quiet-group",
        "The offsets of a group with members do not expire.",
    ),
    Variant(
        "M44-coordinator-never-resigns", "GroupCoordinatorService.onResignation",
        (NeverResigns,),
        "STALESERVE", "coordinator-paused",
        "A broker that no longer leads a group's partition does not serve the group.",
    ),
    Variant(
        "M45-new-partitions-unseen", "ConsumerCoordinator.rejoinNeededOrPending",
        (NewPartitionsUnseen,),
        "no-progress", "partitions-added",
        "A group reads the partitions that its topics get.",
    ),
    Variant(
        "M51-decisions-forgotten", "TransactionStateManager.loadTransactionsForTxnTopicPartition",
        (DecisionsForgotten,),
        "hanging-transaction", "transactions-under-crashes",
        "A new coordinator sends the markers of the decisions that it finds in its log.",
    ),
    Variant(
        "M60-keeps-lost-partitions", "ZKSessionExpireListener.handleNewSession",
        (KeepsLostPartitions,),
        "EXCL", "zk-consumer-zombie",
        "An old consumer whose session has expired deletes no owner's znode that it had before.",
    ),
    Variant(
        "M61-hands-over-at-once", "KIP-429", (HandsOverAtOnce,),
        "early-handover", "cooperative-rebalance",
        "A cooperative member's partition is given to another one only after it was revoked.",
    ),
    Variant(
        "M62-drops-rest-of-batch", "CompletedFetch.fetchRecords", (DropsRestOfBatch,),
        "poll-skip", "stale-topic-id",
        "The next poll() goes on behind the last record that was returned.",
    ),
    Variant(
        "M70-keys-collide", "SkimpyOffsetMap", (KeysCollide,),
        "LATEST", "changelog-leader-crash",
        "The log cleaner removes a record only for a later one of the same key.",
    ),
    Variant(
        "M71-start-epoch-dropped", "LeaderEpochFileCache.truncateFromStart", (StartEpochDropped,),
        "EPOCHCACHE", "delete-records",
        "Records behind a new log start keep their epoch in the leader-epoch cache.",
    ),
    *HARM,
    *SHARES,
)  # fmt: skip
