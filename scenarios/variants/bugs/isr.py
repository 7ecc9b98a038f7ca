"""Historical bugs of the ISR and the high watermark (facts, 8.1 and 8.2)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.scenarios.variants.variant import Variant


class FencedIsEligible(ReplicationRules):
    """A leader proposes whoever fetches, fenced and stopping brokers too."""

    def is_eligible(self, partition: Any, remote: Any) -> bool:
        broker = partition.brokers.get(remote.id)
        return broker is not None and remote.broker_epoch in (-1, broker.epoch)


class FencedIsAdmitted(ControllerRules):
    """The controller admits fenced and stopping brokers."""

    def eligible_for_isr(self, broker: Any, broker_epoch: int) -> bool:
        return broker is not None and broker_epoch in (-1, broker.epoch)


class AnyIncarnationIsEligible(ReplicationRules):
    """A leader does not tell a follower's incarnations apart."""

    def is_eligible(self, partition: Any, remote: Any) -> bool:
        broker = partition.brokers.get(remote.id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def is_stale_replica_epoch(self, brokers: Any, replica: int, epoch: int) -> bool:
        return False


class AnyIncarnationIsAdmitted(ControllerRules):
    """The controller does not look at the broker epochs of a proposed ISR."""

    def eligible_for_isr(self, broker: Any, broker_epoch: int) -> bool:
        return super().eligible_for_isr(broker, -1)


class CommittedIsrHoldsHighWatermark(ReplicationRules):
    """A replica that is about to join does not hold the high watermark back."""

    def members_for_high_watermark(self, partition: Any) -> tuple[int, ...]:
        isr: tuple[int, ...] = partition.isr
        return isr


class HighWatermarkMovesBelowMinIsr(ReplicationRules):
    """The high watermark advances with whatever ISR is left."""

    def high_watermark_is_frozen(self, partition: Any) -> bool:
        return False


ISR: tuple[Variant, ...] = (
    Variant(
        "B18-hw-under-min-isr", "KAFKA-15583", (HighWatermarkMovesBelowMinIsr,),
        "MINISR", "B18-hw-under-min-isr",
        "Nothing is exposed that fewer than min.insync.replicas replicas hold.",
    ),
    Variant(
        "B20-hw-from-committed-isr", "KAFKA-8836", (CommittedIsrHoldsHighWatermark,),
        "ISRDATA", "B20-hw-from-committed-isr",
        "A replica that may already be in the ISR holds the high watermark back.",
    ),
    Variant(
        "B24-fenced-replica-rejoins-isr", "KAFKA-13916", (FencedIsEligible, FencedIsAdmitted),
        "ISRELIG", "B24-fenced-replica-rejoins-isr",
        "A broker that is fenced or shutting down is not taken into an ISR.",
    ),
    Variant(
        "B25-no-broker-epoch-in-isr", "KIP-903",
        (AnyIncarnationIsEligible, AnyIncarnationIsAdmitted),
        "ISRDATA", "B25-no-broker-epoch-in-isr",
        "A replica joins the ISR as the incarnation that has caught up, or not at all.",
    ),
)  # fmt: skip
