"""Bugs of the group coordinator (KAFKA.md, 8.5)."""

from __future__ import annotations

from kafkasim.model.client.rules import ClientRules
from kafkasim.model.group.modern.state.assignment import (
    Assignment,
    intersect,
    partitions_of,
    union,
)
from kafkasim.model.group.modern.state.current_assignment import PartitionEpoch, next_assignment
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.group.modern.state.partition_epochs import PartitionEpochs
from kafkasim.model.group.rules import GroupRules
from kafkasim.scenarios.variants.variant import Variant


class PartitionEpochLost(GroupRules):
    """A partition that goes from one set of its owner to the other is added, then removed."""

    def reconcile(
        self,
        member: ConsumerGroupMember,
        target_epoch: int,
        target: Assignment,
        partition_epoch: PartitionEpoch,
        owned: Assignment | None,
    ) -> ConsumerGroupMember:
        """A member that has not revoked a partition keeps it if a new target gives it back."""
        if not intersect(member.revoking, target):
            return super().reconcile(member, target_epoch, target, partition_epoch, owned)
        everything = union(member.assigned, member.revoking)
        epoch = member.member_epoch
        return next_assignment(
            member, epoch, everything, target_epoch, target, partition_epoch, owned
        )

    def update_partition_epochs(
        self,
        epochs: PartitionEpochs,
        old: ConsumerGroupMember | None,
        new: ConsumerGroupMember | None,
    ) -> None:
        """Each of both sets is removed and added again, one set after the other."""
        for name in ("assigned", "revoking"):
            before: Assignment = getattr(old, name, {})
            after: Assignment = getattr(new, name, {})
            if before != after:
                for each in partitions_of(before):
                    epochs.pop(each, None)
                for each in partitions_of(after):
                    assert new is not None
                    epochs[each] = new.member_epoch


class OldConsumerReadsOn(ClientRules):
    """An old consumer commits, gives its partitions up, and goes on with what it has fetched."""

    def stops_fetchers_before_release(self) -> bool:
        """Return False: the fetchers are stopped when the next ones start."""
        return False


class OldConsumerAlwaysCommits(ClientRules):
    """An old consumer commits before it gives partitions up, with auto-commit and without."""

    def commits_at_rebalance(self, auto_commit: bool) -> bool:
        """Return True."""
        return True


class LateTopicsAreAll(ClientRules):
    """Partitions whose topics get their names later are taken for the whole assignment."""

    def keeps_reconciled_topics(self) -> bool:
        """Return False: what was reconciled before is given up."""
        return False


GROUPS: tuple[Variant, ...] = (
    Variant(
        "B85-old-consumer-reads-on", "KAFKA-228", (OldConsumerReadsOn,),
        "EXCL", "B85-old-consumer-reads-on",
        "An old consumer gives its application no record of a partition after it has deleted the"
        " owner's znode.",
    ),
    Variant(
        "B86-old-consumer-commits-unasked", "KAFKA-919", (OldConsumerAlwaysCommits,),
        "skipped-by-commit", "B86-old-consumer-commits-unasked",
        "With auto.commit.enable=false only the application commits, also when a rebalance takes"
        " partitions away.",
    ),
    Variant(
        "B67-kip848-partition-epoch-lost", "KAFKA-16147", (PartitionEpochLost,),
        "EXCL", "B67-kip848-partition-epoch-lost",
        "The coordinator of a consumer group gives a partition to nobody before its owner has"
        " revoked it, also if it was to be given back to that owner meanwhile.",
    ),
    Variant(
        "B99-late-topic-is-all", "KAFKA-16198", (LateTopicsAreAll,),
        "unseen", "B99-late-topic-is-all",
        "A member of a consumer group keeps what it has while it learns the names of topics that it"
        " gets in addition.",
    ),
)  # fmt: skip
