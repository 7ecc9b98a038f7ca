"""The ZooKeeper controller's and its brokers' decisions that Kafka once got wrong, or a KIP changed.

A variant (scenarios/variants) subclasses :class:`ZkControllerRules` and overrides single methods;
every method names the fault that its override brings back (facts, section 8.3). All are pure. B32 is
no variant here: a ZooKeeper controller confirms a controlled shutdown before the new leaders took
over, and always did.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages import AlterPartitionData, ControlPartition, StopReplicaPartition
from kafkasim.model.messages.servers.control import EPOCH_DURING_DELETE, NO_EPOCH
from kafkasim.model.zookeeper.ops import Check, Op

UNKNOWN_EPOCH = -1


class ZkControllerRules:
    """Kafka 3.9 in ZooKeeper mode."""

    # ----------------------------------------------------------- the controller and ZooKeeper

    def guards(self, epoch_check: Check) -> tuple[Op, ...]:
        """Return what stands before a controller's write in its multi: the check that
        /controller_epoch still is ours (KAFKA-6082; B33 leaves it out)."""
        return (epoch_check,)

    def requests_outlive_session(self) -> bool:
        """Return whether what was asked under an expired session is asked again under the next
        one, before the controller hears of the expiry. The old ZkClient library did; today a new
        session begins only when the controller has resigned (B33)."""
        return False

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        """Return whether a broker that was there before and is there now has been away: its znode
        is a newer one (KIP-380, KAFKA-1120; B34, B36)."""
        return epoch > known_epoch

    def broker_epoch(self, epoch: int) -> int:
        """Return the broker epoch that control requests carry: the czxid of the registration that
        the controller knows (KIP-380); −1 is a controller from before (B34)."""
        return epoch

    def stop_replica_epoch(self, leader_epoch: int | None, deleting: bool) -> int:
        """Return the leader epoch of a StopReplica (KIP-570; −1 always before, B37)."""
        if deleting:
            return EPOCH_DURING_DELETE
        return NO_EPOCH if leader_epoch is None else leader_epoch

    def resumes_reassignment(self, adding: tuple[int, ...], removing: tuple[int, ...]) -> bool:
        """Return whether a new controller goes on with what it finds in a topic's znode: replicas
        being added or removed (KIP-455; before it only /admin/reassign_partitions was there)."""
        return bool(adding or removing)

    def is_reassignment_complete(self, targets: tuple[int, ...], isr: tuple[int, ...]) -> bool:
        """Return whether a reassignment may drop the replicas that it removes: all targets are in
        sync (KAFKA-15665 was the KRaft controller's fault; B29)."""
        return all(replica in isr for replica in targets)

    # ------------------------------------------------------------------ brokers, control requests

    def accepts_controller_epoch(self, epoch: int, largest: int) -> bool:
        """Return whether a broker obeys a controller: none with a higher epoch has been heard."""
        return epoch >= largest

    def is_stale_broker_epoch(self, requested: int, own: int) -> bool:
        """Return whether a control request is meant for an earlier incarnation (KIP-380, B34).

        A newer epoch than ours is fine: our registration is done, its answer is not here yet
        (KAFKA-9839, B35).
        """
        return requested != UNKNOWN_EPOCH and requested < own

    def accepts_leader_epoch(self, asked: ControlPartition, current: int) -> bool:
        """Return whether a LeaderAndIsr changes a partition: only a higher leader epoch does."""
        return asked.leader_epoch > current

    def may_stop_replica(self, asked: StopReplicaPartition, current: int) -> bool:
        """Return whether a StopReplica concerns this leadership: not one before (KIP-570, B37)."""
        epoch = asked.leader_epoch
        return epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or epoch >= current

    def unloads_coordinator(self, failed: bool) -> bool:
        """Return whether becoming follower of an offsets partition makes the coordinator resign,
        also when the change of role failed midway (KAFKA-9307; B38 does not when it failed)."""
        return True

    # --------------------------------------------------------------------------- AlterPartition

    def alter_partition_epochs_ahead(
        self, data: AlterPartitionData, leader_epoch: int, partition_epoch: int
    ) -> Errors:
        """Compare a leader's epochs with ours, as far as ours may be behind: then another is
        controller and the leader shall look for it (KAFKA-14154, B23)."""
        if data.leader_epoch > leader_epoch or data.partition_epoch > partition_epoch:
            return Errors.NOT_CONTROLLER
        if data.leader_epoch < leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        return Errors.NONE

    def is_repeated(self, data: AlterPartitionData, isr: tuple[int, ...], recovery: int) -> bool:
        """Return whether a leader asks for what is there already: a retry after a lost answer,
        which succeeds whatever its partition epoch is (KAFKA-12751, KAFKA-14144, B22)."""
        wanted = tuple([member for member, _ in data.new_isr])
        return wanted == isr and data.leader_recovery_state == recovery

    def eligible_for_isr(self, live: bool) -> bool:
        """Return whether a broker may join an ISR: alive and not shutting down (KIP-841, B24)."""
        return live
