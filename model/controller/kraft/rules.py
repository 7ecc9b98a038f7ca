"""The controller's decisions that Kafka once got wrong or that a KIP changed, as named methods.

A variant (scenarios/variants) subclasses :class:`ControllerRules` and overrides one of them. Every
method is a pure function of its arguments.
"""

from __future__ import annotations

from kafkasim.model.controller.common.image import BrokerImage, PartitionRegistration
from kafkasim.model.controller.common.records import ELR_FEATURE, METADATA_VERSION
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AlterPartitionData, BrokerRegistrationRequest

METADATA_VERSION_3_3_IV3 = 7
METADATA_VERSION_3_9_IV0 = 21
METADATA_VERSION_4_0_IV0 = 22
"""The default metadata version: no eligible leader replicas, no epoch bump on an ISR shrink."""
METADATA_VERSION_4_0_IV3 = 25


class ControllerRules:
    """Kafka 4.0 with the fixes of the fact sheet, section 0.1."""

    def bootstrap_features(self) -> dict[str, int]:
        """Return the feature levels that the first active controller writes into an empty log."""
        return {METADATA_VERSION: METADATA_VERSION_4_0_IV0}

    def supported_features(self) -> tuple[tuple[str, int, int], ...]:
        """Return the levels that servers of this release support: (feature, lowest, highest)."""
        return (
            (METADATA_VERSION, METADATA_VERSION_3_3_IV3, METADATA_VERSION_4_0_IV3),
            (ELR_FEATURE, 0, 1),
        )

    # Elections (PartitionChangeBuilder).

    def is_valid_leader(
        self, replica: int, isr: tuple[int, ...], elr: tuple[int, ...], active: bool
    ) -> bool:
        """Return whether a clean election may choose ``replica``: active and in the target ISR,
        or, with an empty ISR, in the ELR (KIP-966)."""
        return active and (replica in isr or (not isr and replica in elr))

    def may_elect_unclean(self, enabled: bool, isr: tuple[int, ...]) -> bool:
        """Return whether a replica outside the ISR may be elected: only where the topic's
        unclean.leader.election.enable says so (B30)."""
        return enabled

    def may_elect_last_known(self, active: bool) -> bool:
        """Return whether the last known leader may be elected once ISR and ELR are empty; it must
        be alive (0.1 d; B31 leaves out the test)."""
        return active

    def leader_epoch_bump(
        self,
        partition: PartitionRegistration,
        target_isr: tuple[int, ...],
        target_replicas: tuple[int, ...],
    ) -> bool:
        """Return whether a change that keeps the leader raises the leader epoch all the same: if a
        reassignment removed replicas, but not on an ISR shrink (KAFKA-15021)."""
        return any(replica not in target_replicas for replica in partition.replicas)

    def reassignment_is_complete(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> bool:
        """Return whether a reassignment to ``replicas`` is done: all of them are in the ISR, of
        which the removed ones do not count any more (KAFKA-15665; any one of them sufficed, B29).
        """
        return bool(isr) and all(replica in isr for replica in replicas)

    # AlterPartition (ReplicationControlManager.validateAlterPartitionData).

    def alter_partition_epoch_order(
        self, broker_id: int, data: AlterPartitionData, partition: PartitionRegistration
    ) -> Errors:
        """Compare the request's epochs with ours, in Kafka's order of checks.

        A leader that is ahead of us knows a newer controller: the answer is NOT_CONTROLLER, so that
        it asks again, and not that it is fenced (KAFKA-14154, B23).
        """
        if data.leader_epoch > partition.leader_epoch:
            return Errors.NOT_CONTROLLER
        if data.partition_epoch > partition.partition_epoch:
            return Errors.NOT_CONTROLLER
        if data.leader_epoch < partition.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        if broker_id != partition.leader:
            return Errors.INVALID_REQUEST
        if data.partition_epoch < partition.partition_epoch:
            return Errors.INVALID_UPDATE_VERSION
        return Errors.NONE

    def eligible_for_isr(self, broker: BrokerImage | None, broker_epoch: int) -> bool:
        """Return whether a broker may be in a proposed ISR: registered, unfenced, not shutting down
        (KIP-841, B24), and the incarnation the leader has seen fetching (KIP-903, B25); −1 is a
        leader that does not know the epoch."""
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and broker_epoch in (-1, broker.epoch)
        )

    # Registration and heartbeats (ClusterControlManager, BrokerHeartbeatManager).

    def fences_previous_incarnation(self, previous: BrokerImage) -> bool:
        """Return whether a new incarnation's registration first does what fencing the previous one
        does: leave ISRs and leaderships (0.1 e, KAFKA-18106, B84)."""
        return True

    def is_unclean_restart(self, previous: BrokerImage, request: BrokerRegistrationRequest) -> bool:
        """Return whether the previous incarnation did not stop cleanly: the epoch in the clean
        shutdown file is not the registered one (KAFKA-18635)."""
        return request.previous_broker_epoch != previous.epoch

    def may_unfence(
        self, broker: BrokerImage, want_fence: bool, metadata_offset: int, log_end_offset: int
    ) -> bool:
        """Return whether a fenced broker is let in: it wants to, and has replayed its registration.
        Comparing with the log's end would chase a moving target (KAFKA-13959, B44)."""
        return not want_fence and metadata_offset >= broker.epoch

    def may_shut_down(self, leads: bool, shutdown_offset: int, lowest_active_offset: int) -> bool:
        """Return whether a broker in controlled shutdown may stop: it leads nothing, and every
        active broker has replayed the change that moved its leaderships (1.8)."""
        return not leads and shutdown_offset <= lowest_active_offset
