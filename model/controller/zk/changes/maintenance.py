"""What the controller does besides: preferred leaders, notifications, producer ids.

Automatic balance (checkAndTriggerAutoLeaderRebalance) runs 5 s after the election and then every
leader.imbalance.check.interval.seconds, broker by broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.events import Steps, ZkFailed
from kafkasim.model.controller.zk.states.elections import Strategy
from kafkasim.model.controller.zk.store.zk_data import (
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PREFERRED_ELECTION,
    PRODUCER_IDS,
    ProducerIdBlock,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AllocateProducerIdsResponse
from kafkasim.model.zookeeper.ops import Delete, Exists, GetData, SetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.context import Replica
    from kafkasim.model.controller.zk.controller import KafkaController
    from kafkasim.model.records import TopicPartition

OK = ZkError.OK
FIRST_BALANCE_US = 5_000_000
TIMER = "auto-leader-rebalance"
BLOCK = 1000


class Maintenance:
    """Tasks of the active controller."""

    def __init__(self, controller: KafkaController) -> None:
        self.controller = controller

    def start(self) -> None:
        """The controller is active."""
        if self.controller.config.auto_leader_rebalance_enable:
            self._arm(self.controller.queue.now + FIRST_BALANCE_US)

    def stop(self) -> None:
        """The controller resigned."""
        self.controller.process.timers.cancel(TIMER)

    def _arm(self, at: int) -> None:
        self.controller.process.timers.arm(TIMER, at, "zk-controller", self._due)

    def _due(self, now: int) -> None:
        controller = self.controller
        self._arm(now + controller.config.leader_imbalance_check_interval_seconds * 1_000_000)
        controller.put("AutoPreferredReplicaLeaderElection", self._balance)

    # --------------------------------------------------------------------------- preferred leaders

    def _balance(self) -> Steps:
        controller = self.controller
        context = controller.context
        if not controller.is_active:
            return
        by_broker: dict[int, list[TopicPartition]] = {}
        for tp, assignment in context.assignments.items():
            if not context.deleting(tp.topic):
                by_broker.setdefault(assignment.replicas[0], []).append(tp)
        for broker, preferred in by_broker.items():
            astray = [
                tp for tp in preferred
                if tp in context.leaderships and context.leaderships[tp].state.leader != broker
            ]  # fmt: skip
            limit = controller.config.leader_imbalance_per_broker_percentage
            if 100 * len(astray) > limit * len(preferred):
                movable = [
                    tp for tp in astray
                    if context.is_live(broker)
                    and broker in context.leaderships[tp].state.isr
                ]  # fmt: skip
                if movable:
                    yield from self.elect(movable, Strategy.PREFERRED, "preferred")

    def elect(self, partitions: list[TopicPartition], strategy: Strategy, reason: str) -> Steps:
        """Hold elections; return the partitions that got a leader (onReplicaElection)."""
        controller = self.controller
        before, controller.store.reason = controller.store.reason, reason
        done = yield from controller.partitions.to_online(partitions, strategy)
        controller.store.reason = before
        return done

    def zk_preferred(self) -> Steps:
        """Carry out what stands in /admin/preferred_replica_election, and delete it."""
        controller = self.controller
        context = controller.context
        _, found = yield (Exists(PREFERRED_ELECTION, watch=True), GetData(PREFERRED_ELECTION))
        if found.error is not OK:
            return
        wanted = [
            tp for tp in found.data.partitions
            if tp in context.leaderships and not context.deleting(tp.topic)
            and context.leaderships[tp].state.leader != context.assignments[tp].replicas[0]
        ]  # fmt: skip
        if wanted:
            yield from self.elect(wanted, Strategy.PREFERRED, "preferred")
        yield from controller.store.write(Delete(PREFERRED_ELECTION))
        yield (Exists(PREFERRED_ELECTION, watch=True),)

    # ------------------------------------------------------------------------- ISR notifications

    def isr_changes(self) -> Steps:
        """Read the states that leaders wrote themselves, and spread them (before IBP 2.7)."""
        controller = self.controller
        context = controller.context
        names = yield from controller.loading.read_children(ISR_CHANGES)
        paths = [f"{ISR_CHANGES}/{name}" for name in names]
        results = yield tuple([GetData(path) for path in paths])
        changed: dict[TopicPartition, None] = {}
        for result in results:
            if result.error is OK:
                changed.update(dict.fromkeys(result.data.partitions))
        known = [tp for tp in changed if tp in context.assignments]
        if known:
            context.leaderships.update((yield from controller.store.read_states(known)))
            yield from controller.send_update_metadata(context.live_or_shutting_down(), known)
            for tp in known:
                yield from controller.reassignments.maybe_complete(tp)
        yield from controller.store.write(*[Delete(path) for path in paths])

    # ---------------------------------------------------------------------------- log directories

    def log_dir_events(self) -> Steps:
        """Ask brokers that lost a log directory what is left (processLogDirEventNotification): they
        answer LeaderAndIsr with an error for each replica that is not."""
        controller = self.controller
        names = yield from controller.loading.read_children(LOG_DIR_EVENTS)
        paths = [f"{LOG_DIR_EVENTS}/{name}" for name in names]
        results = yield tuple([GetData(path) for path in paths])
        brokers = dict.fromkeys([result.data for result in results if result.error is OK])
        controller.replicas.to_online(controller.context.replicas_on(tuple(brokers)))
        yield from controller.store.write(*[Delete(path) for path in paths])

    def on_roles(self, broker: int, errors: tuple[tuple[TopicPartition, Errors], ...]) -> Steps:
        """Take replicas offline whose log directory failed (LeaderAndIsrResponseReceived)."""
        controller = self.controller
        if not controller.is_active:
            return
        known = controller.context.offline_dirs.setdefault(broker, {})
        new: list[Replica] = []
        for tp, error in errors:
            if error is Errors.KAFKA_STORAGE_ERROR and tp not in known:
                known[tp] = None
                new.append((tp, broker))
            elif error is Errors.NONE:
                known.pop(tp, None)
        if new:
            controller.store.reason = "dir-offline"
            yield from controller.broker_changes.replicas_offline(new)

    # -------------------------------------------------------------------------------- producer ids

    def allocate_producer_ids(self, broker: int, broker_epoch: int) -> Steps:
        """Return the answer with the next block (AllocateProducerIds)."""
        controller = self.controller
        refused = AllocateProducerIdsResponse(Errors.NOT_CONTROLLER, -1, -1)
        if not controller.is_active:
            return refused
        known = controller.context.broker_epochs.get(broker)
        if known is None:
            return AllocateProducerIdsResponse(Errors.BROKER_ID_NOT_REGISTERED, -1, -1)
        if broker_epoch != known:
            return AllocateProducerIdsResponse(Errors.STALE_BROKER_EPOCH, -1, -1)
        while True:
            (found,) = yield (GetData(PRODUCER_IDS),)
            if found.error is not OK:
                raise ZkFailed(found.error)
            start = found.data.end + 1 if found.data else 0
            block = ProducerIdBlock(broker, start, start + BLOCK - 1)
            (written,) = yield from controller.store.write(
                SetData(PRODUCER_IDS, block, found.stat.version)
            )
            if written.error is OK:
                return AllocateProducerIdsResponse(Errors.NONE, start, BLOCK)
