"""Historical bugs of the ISR and the high watermark (KAFKA.md, 8.1 and 8.2)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.scenarios.variants.variant import Variant


class FencedIsEligible(ReplicationRules):
    """A leader proposes fenced brokers and brokers that shut down for the ISR."""

    def is_active(self, broker: Any) -> bool:
        return True

    def stops_replicas_in_shutdown(self) -> bool:
        return False


class FencedIsAdmitted(ControllerRules):
    """The controller admits fenced brokers and brokers that shut down to the ISR."""

    def is_active(self, broker: Any) -> bool:
        return True


class AnyIncarnationIsEligible(ReplicationRules):
    """A leader does not compare the broker epochs of a follower."""

    def is_same_incarnation(self, fetched: int, registered: int) -> bool:
        return True

    def is_stale_replica_epoch(self, brokers: Any, replica: int, epoch: int) -> bool:
        return False


class AnyIncarnationIsAdmitted(ControllerRules):
    """The controller does not check the broker epochs of a proposed ISR."""

    def is_same_incarnation(self, proposed: int, registered: int) -> bool:
        return True


class CommittedIsrHoldsHighWatermark(ReplicationRules):
    """A replica that is about to join the ISR does not hold the high watermark back."""

    def members_for_high_watermark(self, leader: Any) -> tuple[int, ...]:
        isr: tuple[int, ...] = leader.isr
        return isr


class HighWatermarkMovesBelowMinIsr(ReplicationRules):
    """The high watermark advances with fewer than min.insync.replicas in the ISR."""

    def high_watermark_is_frozen(self, leader: Any) -> bool:
        return False


class SilenceIsLag(ReplicationRules):
    """A member that was not heard of for the limit leaves the ISR, though it lacks no record."""

    def out_of_sync(self, leader: Any, now: int) -> tuple[int, ...]:
        for entry in list(leader.delayed.session_entries):
            entry.mark_dirty()  # an idle follower's fetches count: its session has their times
        return super().out_of_sync(leader, now)

    def is_caught_up(self, remote: Any, leader_end: int, now: int, lag_us: int) -> bool:
        return bool(now - remote.last_caught_up_us <= lag_us)


class HighWatermarkWaitsForFetch(ReplicationRules):
    """The answer to an ISR change leaves the high watermark where it is."""

    def advances_after_isr_change(self) -> bool:
        return False


class AnyReplicaMayBeRead(ReplicationRules):
    """A consumer is sent to any replica that holds its position, in the ISR or not."""

    def may_be_read_from(self, leader: Any, remote: Any, offset: int) -> bool:
        return bool(remote.log_start_offset <= offset <= remote.leo)


class DivergedFetchIsProgress(ReplicationRules):
    """A fetch that is answered with where the logs diverge counts as one that has succeeded."""

    def skips_diverged_followers(self) -> bool:
        return False


ISR: tuple[Variant, ...] = (
    Variant(
        "B18-hw-under-min-isr", "KAFKA-15583", (HighWatermarkMovesBelowMinIsr,),
        "MINISR", "B18-hw-under-min-isr",
        "The high watermark never passes a record that fewer than min.insync.replicas replicas "
        "hold.",
    ),
    Variant(
        "B20-hw-from-committed-isr", "KAFKA-8836", (CommittedIsrHoldsHighWatermark,),
        "ISRDATA", "B20-hw-from-committed-isr",
        "A replica that may already be in the ISR holds the high watermark back, even when it "
        "lags.",
    ),
    Variant(
        "B24-fenced-replica-rejoins-isr", "KAFKA-13916", (FencedIsEligible, FencedIsAdmitted),
        "ISRELIG", "B24-fenced-replica-rejoins-isr",
        "A broker that is fenced or shutting down is not admitted to an ISR, even if it fetches "
        "in time.",
    ),
    Variant(
        "B25-no-broker-epoch-in-isr", "KIP-903",
        (AnyIncarnationIsEligible, AnyIncarnationIsAdmitted),
        "ISRDATA", "B25-no-broker-epoch-in-isr",
        "The ISR admits the incarnation of a replica that has caught up, and no later one.",
    ),
    Variant(
        "B73-lagging-preferred-replica", "KAFKA-14372", (AnyReplicaMayBeRead,),
        "READISR", "B73-lagging-preferred-replica",
        "A consumer is sent only to replicas in the ISR, whose high watermark goes on.",
    ),
    Variant(
        "B93-silent-member-removed", "KAFKA-7152", (SilenceIsLag,),
        "LAGREASON", "B93-silent-member-removed",
        "A member whose log ends where the leader's does stays in the ISR, however long it is "
        "silent.",
    ),
    Variant(
        "B95-hw-waits-after-shrink", "KAFKA-13091", (HighWatermarkWaitsForFetch,),
        "LIVE", "B95-hw-waits-after-shrink",
        "The high watermark moves on once the member that held it back has left the ISR.",
    ),
    Variant(
        "B100-diverged-fetch-counts", "KAFKA-13141", (DivergedFetchIsProgress,),
        "ISRDATA", "B100-diverged-fetch-counts",
        "A follower that still has to truncate its log does not join the ISR for its length.",
    ),
)  # fmt: skip
