"""Mutations: one rule taken away at a time, to prove that an invariant or a check notices.

They are not Kafka's history (those come with the catalogue of historical bugs) but what the history
is made of: each removes a rule that a reader might think superfluous.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.client.rules import ClientRules
from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.rules import StorageRules
from kafkasim.scenarios.variants.variant import Variant


class HighWatermarkIgnoresFollowers(ReplicationRules):
    """The leader exposes what it has appended, whoever has fetched it."""

    def high_watermark(self, partition: Any, now: int) -> int:
        return int(partition.log.log_end_offset)


class IsrExpandsUnchecked(ReplicationRules):
    """Any eligible follower that fetches joins the ISR, however far behind."""

    def may_join_isr(self, partition: Any, remote: Any) -> bool:
        return self.is_eligible(partition, remote)


class NoTruncation(ReplicationRules):
    """A diverging follower keeps what it has and the leader serves it from there."""

    def truncation_offset(
        self, log: Any, leader_epoch: int, leader_end: int, fetch_offset: int
    ) -> int:
        return int(log.log_end_offset)


class NoEpochFencing(ReplicationRules):
    """Requests and replies of another leader epoch are taken as if they were of this one."""

    def check_leader_epoch(self, requested: int, current: int) -> Errors:
        return Errors.NONE

    def accepts_fetch_reply(self, sent: Any, state: Any) -> bool:
        return bool(sent.fetch_offset == state.fetch_offset)


class AppendsAnyEpoch(StorageRules):
    """A follower's log takes batches of any leader epoch."""

    def follower_accepts(self, batch_epoch: int, leader_epoch: int) -> bool:
        return True


class NoMinIsr(ReplicationRules):
    """acks=all is acknowledged by whatever ISR there is."""

    def enough_replicas(self, partition: Any) -> bool:
        return True

    def after_append_error(self, partition: Any) -> Errors:
        return Errors.NONE

    def high_watermark_is_frozen(self, partition: Any) -> bool:
        return False


class VoteNotDurable(RaftRules):
    """A voter answers before its vote is on disk."""

    def persist_vote_before_reply(self, store: Any, state: Any, out: list[Any]) -> None:
        store.write(state)


class CommitsAlone(RaftRules):
    """The Raft leader commits what it has flushed, whoever has fetched it."""

    def high_watermark(self, end_offsets: Any, epoch_start: int, current: int) -> int:
        return int(max([*end_offsets, current]))


class NoGenerationCheck(GroupRules):
    """A commit of an older generation, or of a member that was removed, is taken."""

    def check_generation(self, group: Any, generation: int) -> Errors:
        return Errors.NONE

    def check_committer(self, group: Any, member_id: str, instance_id: str | None) -> Errors:
        return Errors.NONE


class NoSequenceCheck(StorageRules):
    """The broker appends an idempotent producer's batch whatever its sequence."""

    def find_duplicate(self, entry: Any, batch: Any) -> None:
        return None

    def check_sequence(self, entry: Any, batch: Any) -> Errors:
        return Errors.NONE


class AsyncCommitRetried(ClientRules):
    """An async commit that failed is sent again, possibly behind a later one."""

    def retries_async_commit(self) -> bool:
        return True


class AnyControllerEpoch(ZkControllerRules):
    """Brokers obey whoever calls himself controller."""

    def accepts_controller_epoch(self, epoch: int, largest: int) -> bool:
        return True


class BouncesUnseen(ZkControllerRules):
    """A broker that is registered before and after has been there all the time."""

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        return False


class ReassignmentsForgotten(ZkControllerRules):
    """What an API asked for is not in /admin/reassign_partitions, so a new controller leaves it."""

    def resumes_reassignment(self, adding: tuple[int, ...], removing: tuple[int, ...]) -> bool:
        return False


MUTATIONS: tuple[Variant, ...] = (
    Variant(
        "M01-hw-ignores-followers", "KIP-101", (HighWatermarkIgnoresFollowers,),
        "ISRDATA", "steady", "A leader that exposes what no follower has breaks acks=all.",
    ),
    Variant(
        "M02-isr-expands-unchecked", "KAFKA-7128", (IsrExpandsUnchecked,),
        "ISRDATA", "lagging-joiner", "A follower in the ISR must hold what is exposed.",
    ),
    Variant(
        "M03-no-truncation", "KIP-101", (NoTruncation,),
        "no-progress", "deposed-leader", "A follower that keeps its own tail diverges for good.",
    ),
    Variant(
        "M04-no-epoch-fencing", "KIP-320", (NoEpochFencing, AppendsAnyEpoch),
        "ISRDATA", "two-epochs-late", "A late fetch of an older epoch tells of a log that was cut.",
    ),
    Variant(
        "M05-no-min-isr", "KIP-966", (NoMinIsr,),
        "MINISR", "last-replica", "min.insync.replicas is what makes acks=all mean more than one.",
    ),
    Variant(
        "M06-vote-not-durable", "KIP-595", (VoteNotDurable,),
        "ONELEADER", "forgotten-vote", "A forgotten vote elects two leaders of one epoch.",
    ),
    Variant(
        "M07-no-generation-check", "KAFKA-1716", (NoGenerationCheck,),
        "offset-regression", "zombie-consumer", "A removed member overwrites the new owner's commit.",
    ),
    Variant(
        "M08-no-sequence-check", "KIP-98", (NoSequenceCheck,),
        "NODUP", "flaky-network", "Retries without sequences are stored twice.",
    ),
    Variant(
        "M09-commits-alone", "KIP-595", (CommitsAlone,),
        "META", "controller-split-brain", "A controller that commits alone commits what is undone.",
    ),
    Variant(
        "M20-zk-any-controller-epoch", "derived", (AnyControllerEpoch,),
        "META", "zk-controller-gc-pause", "A broker obeys no controller but the newest it heard of.",
    ),
    Variant(
        "M21-zk-no-bounce", "KAFKA-1120", (BouncesUnseen,),
        "no-progress", "zk-fast-restart", "A broker started anew must hear anew what it hosts.",
    ),
    Variant(
        "M22-zk-reassignment-forgotten", "KIP-455", (ReassignmentsForgotten,),
        "LIVE", "zk-reassign-failover", "A new controller goes on with a reassignment it finds.",
    ),
)  # fmt: skip
