"""Decisions of the ZooKeeper controller and its brokers that Kafka got wrong once or a KIP changed.

A variant (scenarios/variants) is a subclass of :class:`ZkControllerRules` that overrides single
methods; each method names the fault that its override brings back (KAFKA.md, 8.3). All methods are
pure. B32 has no method here: a ZooKeeper controller confirms a controlled shutdown before the new
leaders have learned of it, and always did.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages import AlterPartitionData, ControlPartition, StopReplicaPartition
from kafkasim.model.messages.servers.control import EPOCH_DURING_DELETE, NO_EPOCH
from kafkasim.model.zookeeper.ops import Check, Op

UNKNOWN_EPOCH = -1
"""In place of a broker epoch: the controller is older than KIP-380."""


class ZkControllerRules:
    """Kafka 3.9 in ZooKeeper mode."""

    # ----------------------------------------------------------- the controller and ZooKeeper

    def guards(self, epoch_check: Check) -> tuple[Op, ...]:
        """Return the operations that precede a controller's write in its multi.

        That is the check that /controller_epoch still has the version which this controller wrote
        (KAFKA-6082; B33 omits it).
        """
        return (epoch_check,)

    def requests_outlive_session(self) -> bool:
        """Return whether requests of an expired session are sent again in the next session.

        True also means that the next session begins before the controller has resigned. The old
        ZkClient library worked so (B33).
        """
        return False

    def startup_takes_offline(self) -> bool:
        """Return whether a controller that is elected takes the brokers that it finds dead out of
        the ISRs (KAFKA-3143, B97). Before, it did so only with those that died while it was active.
        """
        return True

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        """Return whether a broker that is still registered has restarted: its registration is newer
        than the one known (KIP-380, KAFKA-1120; B34, B36)."""
        return epoch > known_epoch

    def broker_epoch(self, epoch: int) -> int:
        """Return the broker epoch in control requests: the czxid of the registration known to the
        controller (KIP-380), or −1 for a controller older than that (B34)."""
        return epoch

    def stop_replica_epoch(self, leader_epoch: int | None, deleting: bool) -> int:
        """Return the leader epoch in a StopReplica.

        ``leader_epoch`` None: the partition has none. Before KIP-570 it was always −1 (B37).
        """
        if deleting:
            return EPOCH_DURING_DELETE
        return NO_EPOCH if leader_epoch is None else leader_epoch

    def resumes_reassignment(self, adding: tuple[int, ...], removing: tuple[int, ...]) -> bool:
        """Return whether a new controller continues the reassignment that a topic's znode names.

        True if replicas are being added or removed (KIP-455). Before, only
        /admin/reassign_partitions named reassignments.
        """
        return bool(adding or removing)

    def is_reassignment_complete(self, targets: tuple[int, ...], isr: tuple[int, ...]) -> bool:
        """Return whether a reassignment may drop the replicas that it removes: all targets are in
        the ISR (KAFKA-15665, B29, was the same rule of the KRaft controller)."""
        return all(replica in isr for replica in targets)

    def moves_leaderships(self) -> bool:
        """Return whether a broker that wants to stop hands its leaderships over before the answer
        (KafkaController.doControlledShutdown)."""
        return True

    def told_of_leader(self, replicas: tuple[int, ...], former: int) -> tuple[int, ...]:
        """Return which of the replicas get LeaderAndIsr after an election: the ``former`` leader,
        too (PartitionStateMachine.doElectLeaderForPartitions)."""
        return replicas

    # ------------------------------------------------------------------ brokers, control requests

    def accepts_controller_epoch(self, epoch: int, largest: int) -> bool:
        """Return whether a broker obeys a request: it has seen no higher controller epoch."""
        return epoch >= largest

    def is_stale_broker_epoch(self, requested: int, own: int) -> bool:
        """Return whether a control request is meant for an earlier incarnation (KIP-380, B34).

        A newer epoch than the broker's own is accepted: ZooKeeper has the broker's registration,
        and its reply has not arrived yet (KAFKA-9839, B35).
        """
        return requested != UNKNOWN_EPOCH and requested < own

    def accepts_leader_epoch(self, asked: ControlPartition, current: int) -> bool:
        """Return whether a LeaderAndIsr changes a partition: its leader epoch is higher."""
        return asked.leader_epoch > current

    def may_stop_replica(self, asked: StopReplicaPartition, current: int) -> bool:
        """Return whether a broker obeys a StopReplica: its leader epoch is not lower than the
        partition's, or it carries none (KIP-570, B37)."""
        epoch = asked.leader_epoch
        return epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or epoch >= current

    def coordinator_reads_zookeeper(self) -> bool:
        """Return whether a broker counts the partitions of __transaction_state in ZooKeeper before
        its coordinator gets one of them or loses it.

        If the session expires, the read throws: the replica has its new leader epoch by then, so
        the request is not obeyed again, and the coordinator keeps its state (B38, KAFKA-9307).
        """
        return False

    # --------------------------------------------------------------------------- AlterPartition

    def alter_partition_epochs_ahead(
        self, data: AlterPartitionData, leader_epoch: int, partition_epoch: int
    ) -> Errors:
        """Return the error of an AlterPartition for its leader epoch, or for epochs ahead of ours.

        A leader that is ahead knows a newer controller. NOT_CONTROLLER makes it look for that one
        (KAFKA-14154, B23).
        """
        if data.leader_epoch > leader_epoch or data.partition_epoch > partition_epoch:
            return Errors.NOT_CONTROLLER
        if data.leader_epoch < leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        return Errors.NONE

    def is_repeated(self, data: AlterPartitionData, isr: tuple[int, ...], recovery: int) -> bool:
        """Return whether an AlterPartition asks for the ISR and recovery state already written.

        It is then a retry after a lost response, and succeeds whatever its partition epoch is
        (KAFKA-12751, KAFKA-14144, B22).
        """
        wanted = tuple([member for member, _ in data.new_isr])
        return wanted == isr and data.leader_recovery_state == recovery

    def eligible_for_isr(self, live: bool) -> bool:
        """Return whether a broker may join an ISR; ``live``: registered and not shutting down
        (KIP-841, B24)."""
        return live
