"""Decisions of the KRaft controller that Kafka got wrong once or a KIP changed, as named methods.

A variant (scenarios/variants) is a subclass of :class:`ControllerRules` that overrides single
methods; each method names the fault that its override brings back (KAFKA.md, 8.2 and 8.3). Every
method is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Container

from kafkasim.model.controller.common.image import BrokerImage, PartitionRegistration
from kafkasim.model.controller.common.records import NO_LEADER
from kafkasim.model.controller.kraft.feature_levels import (
    METADATA_VERSION_3_6_IV0,
    SUPPORTED,
    Ranges,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AclBinding, AlterPartitionData, BrokerRegistrationRequest


class ControllerRules:
    """Kafka 4.0 with the fixes of KAFKA.md, 0.1."""

    def supported_features(self) -> Ranges:
        """Return the levels that servers of this release support: (feature, lowest, highest)."""
        return SUPPORTED["4.0"]

    def has_internal_segment_bytes(self) -> bool:
        """Return whether a topic's segment.bytes is 1 MiB at least, and internal.segment.bytes may
        be smaller (KIP-1030, Kafka 4.1)."""
        return False

    def is_new_entry(self, binding: AclBinding, known: Container[AclBinding]) -> bool:
        """Return whether CreateAcls writes an entry.

        ``known`` are those of the image, and those that the request has named before. A second one
        cannot be replayed by the authorizers (KAFKA-19347, A07).
        """
        return binding not in known

    # Elections (PartitionChangeBuilder).

    def is_valid_leader(
        self, replica: int, isr: tuple[int, ...], elr: tuple[int, ...], active: bool
    ) -> bool:
        """Return whether a clean election may choose ``replica``.

        ``active``: its broker is unfenced and not shutting down. It must be in the target ISR or,
        if that is empty, in the ELR (KIP-966).
        """
        return active and (replica in isr or (not isr and replica in elr))

    def may_elect_unclean(self, enabled: bool, isr: tuple[int, ...]) -> bool:
        """Return whether a replica outside the ISR may be elected.

        ``enabled``: the topic's unclean.leader.election.enable, or an operator, allows it (B30).
        """
        return enabled

    def may_elect_last_known(self, active: bool) -> bool:
        """Return whether the last known leader may be elected when ISR and ELR are empty.

        Its broker must be active (KAFKA.md, 0.1 d; B31 omits the check).
        """
        return active

    def next_last_known_leader(
        self, partition: PartitionRegistration, isr: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Return whom a partition that is left without a leader has as last known leader.

        ``partition`` is its state before the change, ``isr`` its ISR afterwards. The leader that it
        loses is noted, also if it stays in the ISR (KAFKA.md, 0.1 f). Before apache/kafka PR 20629
        an ISR had to become empty (B87).
        """
        return partition.last_known_elr if partition.leader == NO_LEADER else (partition.leader,)

    def raises_leader_epoch(
        self,
        partition: PartitionRegistration,
        target_isr: tuple[int, ...],
        target_replicas: tuple[int, ...],
        metadata_version: int,
    ) -> bool:
        """Return whether a change that keeps the leader raises the leader epoch all the same.

        It does if a reassignment removes replicas. If the ISR shrinks, it does before metadata
        version 3.6-IV0 only (KAFKA-15021).
        """
        if any(replica not in target_replicas for replica in partition.replicas):
            return True
        shrinks = any(replica not in target_isr for replica in partition.isr)
        return bool(target_isr) and shrinks and metadata_version < METADATA_VERSION_3_6_IV0

    def reassignment_is_complete(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> bool:
        """Return whether a reassignment to ``replicas`` is done: all of them are in ``isr``.

        ``isr`` has no replicas that are being removed. Before KAFKA-15665 one target in the ISR
        sufficed (B29).
        """
        return bool(isr) and all(replica in isr for replica in replicas)

    # AlterPartition (ReplicationControlManager.validateAlterPartitionData).

    def alter_partition_epoch_order(
        self, broker_id: int, data: AlterPartitionData, partition: PartitionRegistration
    ) -> Errors:
        """Return the error of an AlterPartition for its epochs and its sender, in Kafka's order.

        A leader that is ahead of this controller knows a newer one. NOT_CONTROLLER makes it ask
        that one; FENCED_LEADER_EPOCH would make it give up (KAFKA-14154, B23).
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
        """Return whether a broker may be in a proposed ISR; None: it is not registered."""
        return (
            broker is not None
            and self.is_active(broker)
            and self.is_same_incarnation(broker_epoch, broker.epoch)
        )

    def is_active(self, broker: BrokerImage) -> bool:
        """Return whether a broker is neither fenced nor in controlled shutdown (KIP-841, B24)."""
        return not broker.fenced and not broker.in_controlled_shutdown

    def is_same_incarnation(self, proposed: int, registered: int) -> bool:
        """Return whether the leader proposes the incarnation that is registered (KIP-903, B25).

        Both are broker epochs; ``proposed`` is −1 if the leader does not know the incarnation.
        """
        return proposed in (-1, registered)

    # Settings (ConfigurationControlManager).

    def clears_elr(self) -> bool:
        """Return whether a change of min.insync.replicas clears the ELR of its topics.

        A replica in the ELR has all records that an ISR of the former minimum has committed, not
        those that a smaller ISR commits (createClearElrRecordsAsNeeded).
        """
        return True

    # Registration and heartbeats (ClusterControlManager, BrokerHeartbeatManager).

    def fences_previous_incarnation(self, previous: BrokerImage | None) -> bool:
        """Return whether a new incarnation's registration first fences the previous incarnation.

        True takes the previous one out of ISRs and leaderships (KAFKA.md, 0.1 e; KAFKA-18106, B84).
        """
        return True

    def is_unclean_restart(
        self, previous: BrokerImage | None, request: BrokerRegistrationRequest
    ) -> bool:
        """Return whether the previous incarnation stopped uncleanly.

        True if the broker epoch in the clean shutdown file is not the registered one (KAFKA-18635),
        and if it was unregistered meanwhile (ClusterControlManager.registerBroker).
        With ELR it then leaves ISR and ELR, as it may lack what it had not flushed (KIP-966, B19).
        """
        return previous is None or request.previous_broker_epoch != previous.epoch

    def fences_one_broker_at_a_time(self) -> bool:
        """Return whether an event of the controller fences one stale broker, and the next event the
        next one.

        Records of one event do not see each other. With two brokers in one event, the second one's
        change of a partition puts the first one back into its ISR (KAFKA-13173, B94).
        """
        return True

    def tracks_fenced_brokers(self) -> bool:
        """Return whether a fenced broker has a session too (BrokerHeartbeatTracker, since 4.0).

        True refuses a new incarnation until the previous one has been silent for the whole session,
        even after its controlled shutdown, and the end of that session fences it once more.
        """
        return True

    def begins_sessions_of_fenced_brokers(self) -> bool:
        """Return whether a new active controller begins a session for fenced brokers, too.

        True fences them once more a session later. Kafka 4.1 begins those of unfenced brokers only,
        so that a fenced one may register at once (ClusterControlManager.activate).
        """
        return True

    def session_has_ended(self, silent_us: int, session_timeout_us: int) -> bool:
        """Return whether a broker's session has ended (BrokerHeartbeatTracker.isExpired).

        ``silent_us`` is how long the controller has received no heartbeat of the broker.
        """
        return silent_us >= session_timeout_us

    def may_unfence(
        self, want_fence: bool, metadata_offset: int, registration_offset: int, log_end_offset: int
    ) -> bool:
        """Return whether a fenced broker is unfenced: it asks for it and has replayed its
        registration.

        ``metadata_offset`` is the last offset that the broker has replayed, and
        ``registration_offset`` that of its last RegisterBrokerRecord. The end of the log, with
        which B44 compares, moves with every record (KAFKA-13959).
        """
        return not want_fence and metadata_offset >= registration_offset

    def may_shut_down(self, leads: bool, shutdown_offset: int, lowest_active_offset: int) -> bool:
        """Return whether a broker in controlled shutdown may stop.

        ``leads``: it still leads a partition. ``shutdown_offset`` is the end of the change that
        moved its leaderships, and every active broker must have replayed that (KAFKA.md, 1.8; B32).
        """
        return not leads and shutdown_offset <= lowest_active_offset
