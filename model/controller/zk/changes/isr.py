"""Leaders change ISRs: by AlterPartition, or before IBP 2.7 by themselves in ZooKeeper.

AlterPartition (KIP-497): the leader asks, the controller writes the state and answers. Before, the
leader writes the state znode itself and announces it under /isr_change_notification; the controller
reads the state and sends it to all brokers. Either may complete a reassignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import ControllerContext, Leadership
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import RECOVERED, RECOVERING
from kafkasim.model.controller.zk.store.zk_data import ISR_CHANGES, LeaderAndIsr
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import Delete, GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.changes.reassignments import Reassignments
    from kafkasim.model.controller.zk.channels import RequestBatch
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore

NONE = Errors.NONE
RECOVERY_STATES = (RECOVERED, RECOVERING)


class IsrChanges:
    """Writes, reads and spreads the ISRs that leaders ask for."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        batch: RequestBatch,
        rules: ZkControllerRules,
        reassignments: Reassignments,
    ) -> None:
        self.context = context
        self.store = store
        self.batch = batch
        self.rules = rules
        self.reassignments = reassignments

    # ----------------------------------------------------------------------------- AlterPartition

    def alter(self, request: AlterPartitionRequest) -> Steps:
        """Return the response to a leader's request to change ISRs (processAlterPartition).

        Whoever asks in the present leader epoch is taken for the leader.
        """
        context = self.context
        known = context.broker_epochs.get(request.broker_id)
        if known is None or known != request.broker_epoch:
            return AlterPartitionResponse(Errors.STALE_BROKER_EPOCH, ())
        if any(data.leader_recovery_state not in RECOVERY_STATES for data in request.partitions):
            return AlterPartitionResponse(Errors.UNKNOWN_SERVER_ERROR, ())  # LeaderRecoveryState.of
        results: dict[tuple[str, int], AlterPartitionResult] = {}
        wanted: dict[TopicPartition, Leadership] = {}
        by_reason: dict[str, dict[TopicPartition, Leadership]] = {}
        asked: list[TopicPartition] = []
        for data in request.partitions:
            key = (data.topic_id, data.partition)
            name = context.topic_names.get(data.topic_id)
            if name is None:
                results[key] = AlterPartitionResult(*key, Errors.UNKNOWN_TOPIC_ID)
                continue
            tp = TopicPartition(name, data.partition)
            asked.append(tp)
            result = self._check(tp, data, request.broker_id)
            if result is None:
                wanted[tp] = self._wanted(tp, data, request.broker_id)
                by_reason.setdefault(data.reason, {})[tp] = wanted[tp]
            else:
                results[key] = result
        written: dict[TopicPartition, Leadership] = {}
        for reason, group in by_reason.items():
            self.store.because(reason)
            done, _ = yield from self.store.update_states(group)
            written.update(done)
        for tp in wanted:
            key = (context.topic_ids[tp.topic], tp.partition)
            if tp in written:
                results[key] = _success(key, written[tp])
            else:
                results[key] = AlterPartitionResult(*key, Errors.INVALID_UPDATE_VERSION)
        self.batch.send_update_metadata(context.live_or_shutting_down(), asked)
        return AlterPartitionResponse(NONE, tuple(results.values()))

    def complete_reassignments(self, response: AlterPartitionResponse) -> Steps:
        """Complete the reassignments whose last target has joined the ISR by this response."""
        for result in response.partitions:
            if result.error is NONE:
                tp = TopicPartition(self.context.topic_names[result.topic_id], result.partition)
                yield from self.reassignments.maybe_complete(tp)

    def _wanted(self, tp: TopicPartition, data: AlterPartitionData, leader: int) -> Leadership:
        before = self.context.leaderships[tp]
        state = LeaderAndIsr(
            leader,
            before.state.leader_epoch,
            tuple([member for member, _ in data.new_isr]),
            self.context.epoch,
            data.leader_recovery_state,
        )
        return Leadership(state, before.version)

    def _check(
        self, tp: TopicPartition, data: AlterPartitionData, leader: int
    ) -> AlterPartitionResult | None:
        """Return the result of a change that is not to be written, None if it is.

        A repeated change succeeds and is not written again. The order of checks is Kafka's.
        """
        rules = self.rules
        key = (data.topic_id, data.partition)
        known = self.context.leaderships.get(tp)
        if known is None:
            return AlterPartitionResult(*key, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        state = known.state
        error = rules.alter_partition_epochs_ahead(data, state.leader_epoch, known.version)
        if error is NONE:
            repeated = rules.is_repeated(data, state.isr, state.leader_recovery_state)
            if repeated and state.leader == leader:
                return _success(key, known)
            recovery, is_live = data.leader_recovery_state, self.context.is_live
            if data.partition_epoch < known.version:
                error = Errors.INVALID_UPDATE_VERSION
            elif recovery == RECOVERING and (
                len(data.new_isr) > 1 or state.leader_recovery_state == RECOVERED
            ):
                error = Errors.INVALID_REQUEST
            elif any(not rules.eligible_for_isr(is_live(member)) for member, _ in data.new_isr):
                error = Errors.INELIGIBLE_REPLICA
        return None if error is NONE else AlterPartitionResult(*key, error)

    # ------------------------------------------------------------------------- before IBP 2.7

    def on_notifications(self) -> Steps:
        """Read the states that leaders wrote themselves, and send them to all brokers
        (processIsrChangeNotification)."""
        context = self.context
        names = yield from self.store.children(ISR_CHANGES)
        paths = [f"{ISR_CHANGES}/{name}" for name in names]
        results = yield tuple([GetData(path) for path in paths])
        changed: dict[TopicPartition, None] = {}
        for result in results:
            if result.error is ZkError.OK:
                changed.update(dict.fromkeys(result.data.partitions))
        known = [tp for tp in changed if tp in context.assignments]
        if known:
            context.leaderships.update((yield from self.store.read_states(known)))
            self.batch.send_update_metadata(context.live_or_shutting_down(), known)
            for tp in known:
                yield from self.reassignments.maybe_complete(tp)
        yield from self.store.write(*[Delete(path) for path in paths])


def _success(key: tuple[str, int], known: Leadership) -> AlterPartitionResult:
    state = known.state
    return AlterPartitionResult(
        *key,
        NONE,
        state.leader,
        state.leader_epoch,
        state.isr,
        known.version,
        state.leader_recovery_state,
    )
