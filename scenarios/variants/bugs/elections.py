"""Historical bugs of elections, reassignments and shutdowns (KAFKA.md, 8.2)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.common.image import PartitionRegistration
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.scenarios.variants.variant import Variant


class ReregistrationKeepsLeader(ControllerRules):
    """A new incarnation keeps the leaderships and ISR memberships of the old one."""

    def fences_previous_incarnation(self, previous: Any) -> bool:
        return False


class FencesAllAtOnce(ControllerRules):
    """The controller fences all stale brokers in one event, each as if the others were alive."""

    def fences_one_broker_at_a_time(self) -> bool:
        return False


class UncleanElection(ControllerRules):
    """Any live replica is elected when no live replica is in the ISR."""

    def may_elect_unclean(self, enabled: bool, isr: tuple[int, ...]) -> bool:
        return True


class UnfenceNeedsLogEnd(ControllerRules):
    """A broker is unfenced once it has read the whole metadata log."""

    def may_unfence(
        self, want_fence: bool, metadata_offset: int, registration_offset: int, log_end_offset: int
    ) -> bool:
        return not want_fence and metadata_offset >= log_end_offset - 1


class UncleanRestartIsTrusted(ControllerRules):
    """A broker that restarted uncleanly stays among the eligible leader replicas."""

    def is_unclean_restart(self, previous: Any, request: Any) -> bool:
        return False


class AnyTargetCompletesReassignment(ControllerRules):
    """A reassignment completes once one of its target replicas is in the ISR."""

    def reassignment_is_complete(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> bool:
        return any(replica in isr for replica in replicas)


class DeadLastKnownLeader(ControllerRules):
    """The last known leader is elected even if it is not alive."""

    def may_elect_last_known(self, active: bool) -> bool:
        return True


class LeaderNotedWithEmptyIsr(ControllerRules):
    """A partition notes its last known leader when its ISR becomes empty, and then nobody if it has
    lost its leader before."""

    def next_last_known_leader(
        self, partition: PartitionRegistration, isr: tuple[int, ...]
    ) -> tuple[int, ...]:
        becomes_empty = not isr and bool(partition.isr)
        return (partition.leader,) if becomes_empty else partition.last_known_elr


class ShutsDownBeforeSuccessors(ControllerRules):
    """A broker may stop as soon as the controller has moved its leaderships."""

    def may_shut_down(self, leads: bool, shutdown_offset: int, lowest_active_offset: int) -> bool:
        return not leads


ELECTIONS = (
    Variant(
        "B19-last-replica-standing", "KIP-966", (UncleanRestartIsTrusted,),
        "ISRDATA", "B19-last-replica-standing",
        "A broker that restarted uncleanly is not elected while a replica with all records is "
        "about to return.",
    ),
    Variant(
        "B29-reassign-done-with-partial-isr", "KAFKA-15665", (AnyTargetCompletesReassignment,),
        "LIVE", "B29-reassign-done-with-partial-isr",
        "A reassignment completes when all its target replicas are in the ISR, not when the "
        "first is.",
    ),
    Variant(
        "B30-unclean-election", "KIP-106", (UncleanElection,),
        "lost-write", "B30-unclean-election",
        "Without unclean.leader.election.enable a partition waits for its last in-sync replica.",
    ),
    Variant(
        "B31-dead-last-known-leader", "KIP-966", (DeadLastKnownLeader,),
        "ISRELIG", "B31-dead-last-known-leader",
        "A last known leader is elected only while it is alive.",
    ),
    Variant(
        "B32-controlled-shutdown-early", "KAFKA-6029", (ShutsDownBeforeSuccessors,),
        "LIVE", "B32-controlled-shutdown-early",
        "A broker in controlled shutdown stops only after its successors have applied their "
        "leadership.",
    ),
    Variant(
        "B44-unfence-needs-log-end", "KAFKA-13959", (UnfenceNeedsLogEnd,),
        "LIVE", "B44-unfence-needs-log-end",
        "A broker is unfenced once it has replayed its own registration, however busy the "
        "metadata log is.",
    ),
    Variant(
        "B84-reregistration-keeps-leader", "KAFKA-18106", (ReregistrationKeepsLeader,),
        "ISRELIG", "B84-reregistration-keeps-leader",
        "A new incarnation of a broker is out of every ISR and leads nothing.",
    ),
    Variant(
        "B94-two-fenced-at-once", "KAFKA-13173", (FencesAllAtOnce,),
        "ISRELIG", "B94-two-fenced-at-once",
        "Two brokers whose sessions end together are both out of every ISR.",
    ),
    Variant(
        "B87-lost-leader-not-noted", "apache/kafka PR 20629", (LeaderNotedWithEmptyIsr,),
        "LIVE", "B87-lost-leader-not-noted",
        "A partition notes its last known leader when it loses it, also if the leader stays in the "
        "ISR.",
    ),
)  # fmt: skip
