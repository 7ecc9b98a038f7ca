"""A broker asks to stop (ControlledShutdown; KafkaController.doControlledShutdown)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import Strategy
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerRegistration
from kafkasim.model.messages import ControlledShutdownRequest, ControlledShutdownResponse

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.channels import RequestBatch
    from kafkasim.model.controller.zk.context import ControllerContext
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
    from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
    from kafkasim.model.controller.zk.store.client import KafkaZkClient
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore
    from kafkasim.model.records import TopicPartition


class ControlledShutdown:
    """Moves leaderships away from brokers that want to stop."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        batch: RequestBatch,
        rules: ZkControllerRules,
        zk: KafkaZkClient,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
    ) -> None:
        self.context = context
        self.store = store
        self.batch = batch
        self.rules = rules
        self.zk = zk
        self.partitions = partitions
        self.replicas = replicas

    def move_leaders(self, request: ControlledShutdownRequest) -> Steps:
        """Return the response, which names the partitions that the broker still leads.

        The response does not wait until the new leaders have learned of their leadership (B32).
        """
        context, broker = self.context, request.broker_id
        if broker not in context.brokers:
            return ControlledShutdownResponse(Errors.BROKER_NOT_AVAILABLE)
        known = context.broker_epochs[broker]
        if self.rules.is_stale_broker_epoch(request.broker_epoch, known):
            return ControlledShutdownResponse(Errors.STALE_BROKER_EPOCH)
        context.shutting_down[broker] = None
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for tp in context.partitions_on(broker):
            leadership = context.leaderships.get(tp)
            if leadership is not None and self._has_others(tp):
                (led if leadership.state.leader == broker else followed).append(tp)
        self.store.because("controlled-shutdown")
        if self.rules.moves_leaderships():
            yield from self.partitions.to_online(led, Strategy.CONTROLLED_SHUTDOWN)
        self.batch.new_batch()
        for tp in followed:
            self.batch.add_stop_replica(broker, tp, delete=False)
        self.batch.send()
        yield from self.replicas.to_offline([(tp, broker) for tp in followed])
        info, zxid = context.brokers[broker], self.zk.last_zxid
        self.store.out.append(
            BrokerRegistration(zxid, broker, known, "shutting-down", False, True, info.rack)
        )
        remaining = [
            tp
            for tp, leadership in context.leaderships.items()
            if leadership.state.leader == broker and self._has_others(tp)
        ]
        return ControlledShutdownResponse(Errors.NONE, tuple(remaining))

    def _has_others(self, tp: TopicPartition) -> bool:
        """Return whether the partition has several replicas and its topic is not being deleted."""
        several = len(self.context.assignments[tp].replicas) > 1
        return several and not self.context.deleting(tp.topic)
