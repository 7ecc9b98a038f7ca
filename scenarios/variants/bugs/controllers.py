"""Historical bugs of controllers, and of brokers and clients that follow them (KAFKA.md, 8.3)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.client.rules import ClientRules
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.controller.zk.rules import UNKNOWN_EPOCH, ZkControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.messages.servers.control import NO_EPOCH
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.scenarios.variants.variant import Variant


class RepeatedChangeIsRefused(ZkControllerRules):
    """An AlterPartition that is repeated after a lost response is refused for its old epoch."""

    def is_repeated(self, data: Any, isr: tuple[int, ...], recovery: int) -> bool:
        return False


class LaggingControllerFences(ControllerRules):
    """A controller that is behind a leader's epoch answers FENCED_LEADER_EPOCH."""

    def alter_partition_epoch_order(self, broker_id: int, data: Any, partition: Any) -> Errors:
        if data.leader_epoch != partition.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        if data.partition_epoch != partition.partition_epoch:
            return Errors.INVALID_UPDATE_VERSION
        return super().alter_partition_epoch_order(broker_id, data, partition)


class LaggingZkControllerFences(ZkControllerRules):
    """A ZooKeeper controller that is behind does so, too."""

    def alter_partition_epochs_ahead(
        self, data: Any, leader_epoch: int, partition_epoch: int
    ) -> Errors:
        if data.leader_epoch != leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        if data.partition_epoch > partition_epoch:
            return Errors.INVALID_UPDATE_VERSION
        return Errors.NONE


class WritesUnguarded(ZkControllerRules):
    """A controller writes to ZooKeeper without a check of /controller_epoch."""

    def guards(self, epoch_check: Any) -> tuple[Any, ...]:
        return ()

    def requests_outlive_session(self) -> bool:
        return True


class NoBrokerEpoch(ZkControllerRules):
    """Control requests carry no broker epoch, and brokers check none."""

    def broker_epoch(self, epoch: int) -> int:
        return UNKNOWN_EPOCH

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        return False


class DeadStayAtStartup(ZkControllerRules):
    """A controller that is elected leaves the brokers that it finds dead in the ISRs."""

    def startup_takes_offline(self) -> bool:
        return False


class BounceIsMissed(ZkControllerRules):
    """The controller compares broker ids only, so it misses a broker's new registration."""

    def is_bounced(self, known_epoch: int, epoch: int) -> bool:
        return False


class StopReplicaWithoutEpoch(ZkControllerRules):
    """StopReplica carries no leader epoch."""

    def stop_replica_epoch(self, leader_epoch: int | None, deleting: bool) -> int:
        return NO_EPOCH


class CoordinatorReadsZooKeeper(ZkControllerRules):
    """A transaction coordinator asks ZooKeeper before it takes over or gives up a partition, and
    does neither if the session expires meanwhile."""

    def coordinator_reads_zookeeper(self) -> bool:
        return True


class LoadsOnlyWithoutState(TransactionRules):
    """It cannot load a partition that it has not given up."""

    def load_replaces_state(self) -> bool:
        return False


class NewerBrokerEpochIsRefused(ZkControllerRules):
    """A broker refuses control requests for any registration but the one it knows."""

    def is_stale_broker_epoch(self, requested: int, own: int) -> bool:
        return requested not in (UNKNOWN_EPOCH, own)


class TopicsHaveNamesOnly(ClientRules):
    """Clients do not notice that a topic was created again."""

    def is_another_topic(self, known_id: str | None, topic_id: str) -> bool:
        return known_id is None


CONTROLLERS: tuple[Variant, ...] = (
    Variant(
        "B22-lost-alter-reply-not-idempotent", "KAFKA-12751", (RepeatedChangeIsRefused,),
        "LIVE", "B22-lost-alter-reply-not-idempotent",
        "AlterPartition for an ISR that is already committed succeeds, whatever its partition "
        "epoch.",
    ),
    Variant(
        "B23-zombie-controller-answers-alter", "KAFKA-14154",
        (LaggingControllerFences, LaggingZkControllerFences),
        "LIVE", "B23-zombie-controller-answers-alter",
        "A controller that is behind a leader's epoch answers NOT_CONTROLLER, and the leader "
        "asks the next one.",
    ),
    Variant(
        "B33-zk-write-without-epoch-check", "KAFKA-6082", (WritesUnguarded,),
        "META", "B33-zk-write-without-epoch-check",
        "A controller's write to ZooKeeper takes effect only while it is the controller.",
    ),
    Variant(
        "B34-no-broker-epoch", "KIP-380", (NoBrokerEpoch,),
        "ISRDATA", "B34-no-broker-epoch",
        "A control request for an earlier incarnation of a broker is refused, and a broker that "
        "was away gets all its replicas again.",
    ),
    Variant(
        "B35-newer-broker-epoch-rejected", "KAFKA-9839", (NewerBrokerEpochIsRefused,),
        "LIVE", "B35-newer-broker-epoch-rejected",
        "A broker accepts control requests for a newer broker epoch than it knows: the "
        "registration is its own.",
    ),
    Variant(
        "B36-cached-zk-version-zombie-leader", "KAFKA-2729", (BounceIsMissed,),
        "LIVE", "B36-cached-zk-version-zombie-leader",
        "A leader whose session expired unnoticed is told of its successor under its new "
        "registration.",
    ),
    Variant(
        "B37-stop-replica-without-epoch", "KIP-570", (StopReplicaWithoutEpoch,),
        "ISRDATA", "B37-stop-replica-without-epoch",
        "A late StopReplica does not stop a replica that was assigned again in the meantime.",
    ),
    Variant(
        "B38-partial-become-follower", "KAFKA-9307",
        (CoordinatorReadsZooKeeper, LoadsOnlyWithoutState),
        "hanging-transaction", "B38-partial-become-follower",
        "A transaction coordinator gives its partition up, and loads it again, although its "
        "session expires while it becomes a follower.",
    ),
    Variant(
        "B45-topic-recreated", "KAFKA-12257", (TopicsHaveNamesOnly,),
        "LIVE", "B45-topic-recreated",
        "Clients go on with a topic that was created again under its name, although its leader "
        "epochs are lower.",
    ),
    Variant(
        "B97-dead-at-startup-stay", "KAFKA-3143", (DeadStayAtStartup,),
        "DEADINISR", "B97-dead-at-startup-stay",
        "A controller that is elected takes the brokers that it finds dead out of the ISRs.",
    ),
)  # fmt: skip
