"""Control requests on their way to the brokers (ControllerChannelManager).

Each broker has one FIFO queue, one connection and at most one request in flight. A request without
an answer is sent again until it is answered or the broker is removed; an answer that refuses the
request (a stale epoch) is an answer. A request is built when a state machine asks for it. It
carries the controller epoch and broker epoch of that moment and may be old when it arrives; the
broker's checks of the epochs exist for this. :class:`RequestBatch` gathers the requests that one
step of a state machine causes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import NO_BACKOFF_MS, Channel, Failed
from kafkasim.model.controller.zk.context import NO_SETTINGS, ControllerContext, Leadership
from kafkasim.model.controller.zk.store.zk_data import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from kafkasim.model.messages import (
    ControlPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from kafkasim.model.messages.servers.control import LEADER_DURING_DELETE
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.events import EventQueue
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.effects import Process

RETRY_US = 100_000
SOCKET_TIMEOUT_MS = 30_000  # controller.socket.timeout.ms
PURPOSE = "controller"

Answered = Callable[[int, Any, Any], None]  # (broker, request, response)


class BrokerQueue:
    """The queue of one broker (RequestSendThread). Lane ``controller-to-N``."""

    def __init__(self, process: Process, broker: BrokerInfo, answered: Answered) -> None:
        self.process = process
        self.broker = broker
        self.answered = answered
        self.queue: deque[Any] = deque()
        self.sending = False
        self.dead = False
        self.lane = f"controller-to-{broker.id}"
        self._timer = ("controller-to", broker.id)
        self._channel = Channel(
            process,
            broker.address,
            PURPOSE,
            self.lane,
            SOCKET_TIMEOUT_MS,
            patient=True,
            reconnect_backoff_ms=NO_BACKOFF_MS,
        )

    def put(self, request: Any, now: int) -> None:
        """Queue a request."""
        self.queue.append(request)
        self._send(now)

    def stop(self, now: int) -> None:
        """Drop the requests not sent yet: the broker is gone or the controller resigned."""
        self.dead = True
        self.queue.clear()
        self.process.timers.cancel(self._timer)
        self._channel.close(now)

    def _send(self, now: int) -> None:
        if self.queue and not self.sending and not self.dead:
            self.sending = True
            self._channel.send(self.queue[0], now, self._on_answer)

    def _on_answer(self, answer: Any, now: int) -> None:
        if self.dead:
            return
        if isinstance(answer, Failed):
            self.process.timers.arm(self._timer, now + RETRY_US, self.lane, self._retry)
            return
        self.sending = False
        self.answered(self.broker.id, self.queue.popleft(), answer)
        self._send(now)

    def _retry(self, now: int) -> None:
        self.sending = False
        self._send(now)


class ControllerChannelManager:
    """The queues of all live brokers. ``answered(broker, request, response)`` gets each answer."""

    def __init__(self, process: Process, events: EventQueue, answered: Answered) -> None:
        self.process = process
        self.events = events
        self.answered = answered
        self.queues: dict[int, BrokerQueue] = {}

    def add(self, broker: BrokerInfo) -> None:
        """Open a queue to a broker that has none."""
        if broker.id not in self.queues:
            self.queues[broker.id] = BrokerQueue(self.process, broker, self.answered)

    def remove(self, broker: int) -> None:
        """Close the queue to a broker, if there is one."""
        queue = self.queues.pop(broker, None)
        if queue is not None:
            queue.stop(self.events.now)

    def shutdown(self) -> None:
        """Close all queues."""
        for broker in list(self.queues):
            self.remove(broker)

    def send(self, broker: int, request: Any) -> None:
        """Queue a request to a broker; one without a queue gets nothing."""
        queue = self.queues.get(broker)
        if queue is not None:
            queue.put(request, self.events.began)


class RequestBatch:
    """The requests of one step, gathered by broker (ControllerBrokerRequestBatch).

    All LeaderAndIsr are sent first, then all UpdateMetadata, then all StopReplica.
    """

    def __init__(
        self,
        broker_id: int,
        context: ControllerContext,
        channels: ControllerChannelManager,
        rules: ZkControllerRules,
    ) -> None:
        self.broker_id = broker_id
        self.context = context
        self.channels = channels
        self.rules = rules
        self._leader_and_isr: dict[int, dict[TopicPartition, ControlPartition]] = {}
        self._stop: dict[int, dict[TopicPartition, StopReplicaPartition]] = {}
        self._update_brokers: dict[int, None] = {}
        self._update: dict[TopicPartition, ControlPartition] = {}

    def new_batch(self) -> None:
        """Begin a new batch; drop what an aborted step left behind."""
        self._leader_and_isr, self._stop = {}, {}
        self._update_brokers, self._update = {}, {}

    def add_leader_and_isr(
        self, brokers: Iterable[int], tp: TopicPartition, is_new: bool = False
    ) -> None:
        """Add a partition's state to LeaderAndIsr of ``brokers`` and UpdateMetadata of all."""
        known, assignment = self.context.leaderships[tp], self.context.assignments[tp]
        for broker in brokers:
            of_broker = self._leader_and_isr.setdefault(broker, {})
            before = of_broker.get(tp)
            new = is_new or (before is not None and before.is_new)
            of_broker[tp] = self._partition(tp, known, assignment, known.state.leader, new)
        self.add_update_metadata(self.context.live_or_shutting_down(), (tp,))

    def add_stop_replica(self, broker: int, tp: TopicPartition, delete: bool) -> None:
        """Tell a broker to stop a replica, and if ``delete`` to delete its log."""
        deleting = self.context.deleting(tp.topic)
        known = self.context.leaderships.get(tp)
        epoch = self.rules.stop_replica_epoch(
            None if known is None else known.state.leader_epoch, deleting
        )
        of_broker = self._stop.setdefault(broker, {})
        before = of_broker.get(tp)
        delete = delete or (before is not None and before.delete_partition)
        of_broker[tp] = StopReplicaPartition(tp, epoch, delete)

    def add_update_metadata(
        self, brokers: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Tell brokers which brokers are registered, and the state of these partitions."""
        context = self.context
        for broker in brokers:
            self._update_brokers[broker] = None
        for tp in partitions:
            known, assignment = context.leaderships.get(tp), context.assignments.get(tp)
            if known is not None and assignment is not None:
                gone = context.deleting(tp.topic)
                leader = LEADER_DURING_DELETE if gone else known.state.leader
                self._update[tp] = self._partition(tp, known, assignment, leader, False)

    def _partition(
        self,
        tp: TopicPartition,
        known: Leadership,
        assignment: ReplicaAssignment,
        leader: int,
        is_new: bool,
    ) -> ControlPartition:
        state: LeaderAndIsr = known.state
        return ControlPartition(
            tp,
            self.context.topic_ids.get(tp.topic, ""),
            state.controller_epoch,
            leader,
            state.leader_epoch,
            state.isr,
            known.version,
            assignment.replicas,
            assignment.adding,
            assignment.removing,
            is_new,
            state.leader_recovery_state,
        )

    def send_update_metadata(
        self, brokers: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Send UpdateMetadata alone (sendUpdateMetadataRequest)."""
        self.new_batch()
        self.add_update_metadata(brokers, partitions)
        self.send()

    def send(self) -> None:
        """Queue the requests of this batch and begin a new one (sendRequestsToBrokers)."""
        context, send = self.context, self.channels.send
        for broker, partitions in self._leader_and_isr.items():
            if broker in context.brokers:
                send(broker, self._leader_and_isr_request(broker, partitions))
        if self._update_brokers:
            alive = tuple(
                [
                    UpdateMetadataBroker(broker, info.address, info.rack)
                    for broker, info in sorted(context.brokers.items())
                ]
            )
            states = tuple(self._update.values())
            for broker in self._update_brokers:
                if broker in context.brokers:
                    head = self._head(broker)
                    send(broker, UpdateMetadataRequest(*head, states, alive))
        for broker, stops in self._stop.items():
            if broker in context.brokers:
                request = StopReplicaRequest(*self._head(broker), tuple(stops.values()))
                send(broker, request)
        self.new_batch()

    def _head(self, broker: int) -> tuple[int, int, int]:
        """Return controller id, controller epoch and broker epoch of a request."""
        epoch = self.rules.broker_epoch(self.context.broker_epochs[broker])
        return self.broker_id, self.context.epoch, epoch

    def _leader_and_isr_request(
        self, broker: int, partitions: dict[TopicPartition, ControlPartition]
    ) -> LeaderAndIsrRequest:
        context = self.context
        leaders = {state.leader: None for state in partitions.values()}
        topics = {tp.topic: None for tp in partitions}
        return LeaderAndIsrRequest(
            *self._head(broker),
            tuple(partitions.values()),
            tuple([(b, context.brokers[b].address) for b in leaders if b in context.brokers]),
            tuple([(topic, *context.configs.get(topic, NO_SETTINGS)) for topic in topics]),
        )
