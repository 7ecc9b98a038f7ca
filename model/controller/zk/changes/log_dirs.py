"""A broker's log directory fails (processLogDirEventNotification, LeaderAndIsrResponseReceived).

broker: creates a znode under /log_dir_event_notification
controller: sends it LeaderAndIsr for all of its replicas
broker: answers KAFKA_STORAGE_ERROR for each replica in the failed directory
controller: moves these replicas offline, as after a broker's failure
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.store.zk_data import LOG_DIR_EVENTS
from kafkasim.model.errors import Errors
from kafkasim.model.zookeeper.ops import Delete, GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.context import ControllerContext, Replica
    from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore
    from kafkasim.model.messages import LeaderAndIsrResponse
    from kafkasim.model.records import TopicPartition


class OfflineReplicas(Protocol):
    """Moves replicas offline."""

    def replicas_offline(self, replicas: list[Replica]) -> Steps:
        """Elect other leaders and take the replicas out of ISRs."""
        ...


class LogDirFailures:
    """Learns which replicas are in failed log directories, and moves them offline."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        replicas: ReplicaStateMachine,
        failures: OfflineReplicas,
    ) -> None:
        self.context = context
        self.store = store
        self.replicas = replicas
        self.failures = failures

    def on_notifications(self) -> Steps:
        """Send LeaderAndIsr to the brokers that announced a failed log directory."""
        names = yield from self.store.children(LOG_DIR_EVENTS)
        paths = [f"{LOG_DIR_EVENTS}/{name}" for name in names]
        results = yield tuple([GetData(path) for path in paths])
        brokers = dict.fromkeys([result.data for result in results if result.error is ZkError.OK])
        self.replicas.to_online(self.context.replicas_on(tuple(brokers)))
        yield from self.store.write(*[Delete(path) for path in paths])

    def may_change_replicas(self, broker: int, response: LeaderAndIsrResponse) -> bool:
        """Return whether an answer to LeaderAndIsr may change which replicas are offline.

        Kafka queues an event for every answer; most change nothing.
        """
        if response.error is not Errors.NONE:
            return False
        failed = any(error is Errors.KAFKA_STORAGE_ERROR for _, error in response.partitions)
        return failed or bool(self.context.offline_dirs.get(broker))

    def on_answer(self, broker: int, errors: tuple[tuple[TopicPartition, Errors], ...]) -> Steps:
        """Move the replicas offline that a broker answered with KAFKA_STORAGE_ERROR for the first
        time; forget those that it answered without an error."""
        known = self.context.offline_dirs.setdefault(broker, {})
        new: list[Replica] = []
        for tp, error in errors:
            if error is Errors.KAFKA_STORAGE_ERROR and tp not in known:
                known[tp] = None
                new.append((tp, broker))
            elif error is Errors.NONE:
                known.pop(tp, None)
        if new:
            self.store.because("dir-offline")
            yield from self.failures.replicas_offline(new)
