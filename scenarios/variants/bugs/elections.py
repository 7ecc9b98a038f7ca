"""Historical bugs of elections (facts, 8.2): who may lead, and who keeps leading."""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.scenarios.variants.variant import Variant


class ReregistrationKeepsLeader(ControllerRules):
    """A new incarnation takes over the leaderships and ISR places of the old one."""

    def fences_previous_incarnation(self, previous: Any) -> bool:
        return False


class UncleanElection(ControllerRules):
    """Any replica that is alive is elected when none in sync is."""

    def may_elect_unclean(self, enabled: bool, isr: tuple[int, ...]) -> bool:
        return True


class UnfenceNeedsLogEnd(ControllerRules):
    """A broker is let in when it has read all that the controller has written."""

    def may_unfence(
        self, broker: Any, want_fence: bool, metadata_offset: int, log_end_offset: int
    ) -> bool:
        return not want_fence and metadata_offset >= log_end_offset - 1


class UncleanRestartIsTrusted(ControllerRules):
    """A broker that restarted uncleanly keeps its place among the eligible leaders."""

    def is_unclean_restart(self, previous: Any, request: Any) -> bool:
        return False


class AnyTargetCompletesReassignment(ControllerRules):
    """A reassignment is done once one of its target replicas is in the ISR."""

    def reassignment_is_complete(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> bool:
        return any(replica in isr for replica in replicas)


class DeadLastKnownLeader(ControllerRules):
    """The last known leader is elected without a look whether it is alive."""

    def may_elect_last_known(self, active: bool) -> bool:
        return True


class ShutsDownBeforeSuccessors(ControllerRules):
    """A controlled shutdown is confirmed as soon as the leaderships are given away."""

    def may_shut_down(self, leads: bool, shutdown_offset: int, lowest_active_offset: int) -> bool:
        return not leads


ELECTIONS = (
    Variant(
        "B19-last-replica-standing", "KIP-966", (UncleanRestartIsTrusted,),
        "ISRDATA", "B19-last-replica-standing",
        "A broker that restarted uncleanly is not electable while another has everything.",
    ),
    Variant(
        "B29-reassign-done-with-partial-isr", "KAFKA-15665", (AnyTargetCompletesReassignment,),
        "LIVE", "B29-reassign-done-with-partial-isr",
        "A reassignment is done when all its target replicas are in the ISR.",
    ),
    Variant(
        "B30-unclean-election", "KIP-106", (UncleanElection,),
        "lost-write", "B30-unclean-election",
        "Without unclean.leader.election.enable a partition waits for its last in-sync replica.",
    ),
    Variant(
        "B31-dead-last-known-leader", "KIP-966", (DeadLastKnownLeader,),
        "ISRELIG", "B31-dead-last-known-leader",
        "A last known leader is elected once it is alive, not before.",
    ),
    Variant(
        "B32-controlled-shutdown-early", "KAFKA-6029", (ShutsDownBeforeSuccessors,),
        "LIVE", "B32-controlled-shutdown-early",
        "A broker in controlled shutdown stops once its successors have heard that they lead.",
    ),
    Variant(
        "B44-unfence-needs-log-end", "KAFKA-13959", (UnfenceNeedsLogEnd,),
        "LIVE", "B44-unfence-needs-log-end",
        "A broker is unfenced once it has replayed its own registration.",
    ),
    Variant(
        "B84-reregistration-keeps-leader", "KAFKA-18106", (ReregistrationKeepsLeader,),
        "ISRELIG", "B84-reregistration-keeps-leader",
        "A broker that comes back as a new incarnation is out of every ISR and leads nothing.",
    ),
)  # fmt: skip
