"""What brokers and clients ask the controller: AlterPartition, ControlledShutdown, ElectLeaders,
reassignments, AllocateProducerIds, and what brokers answer to control requests.

Each request is an event; one that is dropped or finds another controller answers NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.kraft.ports import failed, not_controller
from kafkasim.model.controller.zk.context import Leadership, Replica
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import RECOVERED, RECOVERING, Strategy
from kafkasim.model.controller.zk.store.zk_data import PartitionState
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerRegistration
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AlterPartitionData,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    ListPartitionReassignmentsRequest,
    StopReplicaRequest,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.controller import KafkaController

NONE = Errors.NONE
Answer = Callable[[Any, int], None]  # (response, now)


class ControllerRequests:
    """Turns requests into events and their outcome into answers."""

    def __init__(self, controller: KafkaController) -> None:
        self.controller = controller
        self._serve: dict[type, Callable[[Any], Steps]] = {
            AlterPartitionRequest: self._alter_partition,
            ControlledShutdownRequest: self._controlled_shutdown,
            ElectLeadersRequest: self._elect_leaders,
            AllocateProducerIdsRequest: self._allocate,
            AlterPartitionReassignmentsRequest: controller.reassignments.alter,
            ListPartitionReassignmentsRequest: controller.reassignments.ongoing,
        }

    def serve(self, request: Any, answer: Answer) -> None:
        """Serve a request as an event. Callable on any lane."""
        moved = not_controller(request)
        handle = self._serve.get(type(request))
        queue = self.controller.queue

        def steps() -> Steps:
            if not self.controller.is_active:
                answer(moved, queue.now)
                return
            if handle is None:
                answer(failed(request, Errors.UNSUPPORTED_VERSION), queue.now)
                return
            response = moved
            try:
                response = yield from handle(request)
            except Exception:  # moved, or the session expired: the queue deals with it
                answer(moved, queue.now)
                raise
            answer(response, queue.now)
            if isinstance(response, AlterPartitionResponse):
                yield from self._complete_reassignments(response)

        self.controller.put(type(request).__name__, steps, lambda now: answer(moved, now))

    # --------------------------------------------------------------------------- AlterPartition

    def _alter_partition(self, request: AlterPartitionRequest) -> Steps:
        """Change ISRs at their leaders' wish (processAlterPartition)."""
        controller = self.controller
        context = controller.context
        known = context.broker_epochs.get(request.broker_id)
        if known is None or known != request.broker_epoch:
            return AlterPartitionResponse(Errors.STALE_BROKER_EPOCH, ())
        names = {topic_id: name for name, topic_id in context.topic_ids.items()}
        results: dict[tuple[str, int], AlterPartitionResult] = {}
        wanted: dict[TopicPartition, Leadership] = {}
        reasons: dict[str, dict[TopicPartition, Leadership]] = {}
        asked: list[TopicPartition] = []
        for data in request.partitions:
            key = (data.topic_id, data.partition)
            name = names.get(data.topic_id)
            if name is None:
                results[key] = AlterPartitionResult(*key, Errors.UNKNOWN_TOPIC_ID)
                continue
            tp = TopicPartition(name, data.partition)
            asked.append(tp)
            result = self._check(tp, data)
            if result is None:
                wanted[tp] = self._wanted(tp, data)
                reasons.setdefault(data.reason, {})[tp] = wanted[tp]
            else:
                results[key] = result
        written: dict[TopicPartition, Leadership] = {}
        for reason, group in reasons.items():
            controller.store.reason = reason
            done, _ = yield from controller.store.update_states(group)
            written.update(done)
        for tp in wanted:
            key = (context.topic_ids[tp.topic], tp.partition)
            if tp in written:
                results[key] = _success(key, written[tp])
            else:
                results[key] = AlterPartitionResult(*key, Errors.INVALID_UPDATE_VERSION)
        yield from controller.send_update_metadata(context.live_or_shutting_down(), asked)
        return AlterPartitionResponse(NONE, tuple(results.values()))

    def _complete_reassignments(self, response: AlterPartitionResponse) -> Steps:
        """An ISR may have grown by the last target of a reassignment."""
        controller = self.controller
        names = {topic_id: name for name, topic_id in controller.context.topic_ids.items()}
        for result in response.partitions:
            if result.error is NONE:
                tp = TopicPartition(names[result.topic_id], result.partition)
                yield from controller.reassignments.maybe_complete(tp)

    def _wanted(self, tp: TopicPartition, data: AlterPartitionData) -> Leadership:
        context = self.controller.context
        before = context.leaderships[tp]
        isr = tuple([member for member, _ in data.new_isr])
        state = PartitionState(
            before.state.leader,
            before.state.leader_epoch,
            isr,
            context.epoch,
            data.leader_recovery_state,
        )
        return Leadership(state, before.version)

    def _check(self, tp: TopicPartition, data: AlterPartitionData) -> AlterPartitionResult | None:
        """Return why a change is not made, or None; in Kafka's order."""
        context, rules = self.controller.context, self.controller.rules
        key = (data.topic_id, data.partition)
        known = context.leaderships.get(tp)
        if known is None:
            return AlterPartitionResult(*key, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        state = known.state
        error = rules.alter_partition_epochs_ahead(data, state.leader_epoch, known.version)
        if error is NONE:
            if rules.is_repeated(data, state.isr, state.leader_recovery_state):
                return _success(key, known)
            recovery = data.leader_recovery_state
            if data.partition_epoch < known.version:
                error = Errors.INVALID_UPDATE_VERSION
            elif (recovery == RECOVERING and len(data.new_isr) > 1) or (
                recovery == RECOVERING and state.leader_recovery_state == RECOVERED
            ):
                error = Errors.INVALID_REQUEST
            elif any(not rules.eligible_for_isr(context.is_live(b)) for b, _ in data.new_isr):
                error = Errors.INELIGIBLE_REPLICA
        return None if error is NONE else AlterPartitionResult(*key, error)

    # ------------------------------------------------------------------------ ControlledShutdown

    def _controlled_shutdown(self, request: ControlledShutdownRequest) -> Steps:
        """Move leaderships away from a broker that wants to stop (doControlledShutdown).

        The answer names the leaderships that could not be moved; it does not wait for the new
        leaders to have heard of it (B32).
        """
        controller = self.controller
        context = controller.context
        broker = request.broker_id
        if broker not in context.brokers:
            return ControlledShutdownResponse(Errors.BROKER_NOT_AVAILABLE)
        known = context.broker_epochs[broker]
        if controller.rules.is_stale_broker_epoch(request.broker_epoch, known):
            return ControlledShutdownResponse(Errors.STALE_BROKER_EPOCH)
        context.shutting_down[broker] = None
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for tp in context.partitions_on(broker):
            state = context.leaderships.get(tp)
            if len(context.assignments[tp].replicas) > 1 and state is not None:
                if not context.deleting(tp.topic):
                    (led if state.state.leader == broker else followed).append(tp)
        controller.store.reason = "controlled-shutdown"
        yield from controller.partitions.to_online(led, Strategy.CONTROLLED_SHUTDOWN)
        controller.batch.new_batch()
        for tp in followed:
            controller.batch.add_stop_replica(broker, tp, delete=False)
        controller.batch.send(controller.queue.now)
        yield from controller.replicas.to_offline([(tp, broker) for tp in followed])
        info, zxid = context.brokers[broker], controller.zk.last_zxid
        controller.process.out.append(
            BrokerRegistration(zxid, broker, known, "shutting-down", False, True, info.rack)
        )
        remaining = [
            tp
            for tp, leadership in context.leaderships.items()
            if leadership.state.leader == broker
            and len(context.assignments[tp].replicas) > 1
            and not context.deleting(tp.topic)
        ]
        return ControlledShutdownResponse(NONE, tuple(remaining))

    # ------------------------------------------------------------------------------- ElectLeaders

    def _elect_leaders(self, request: ElectLeadersRequest) -> Steps:
        """Elect the preferred replicas, or uncleanly where nobody leads."""
        controller = self.controller
        context = controller.context
        unclean = request.election_type == 1
        every = request.partitions is None
        asked = tuple(context.assignments) if request.partitions is None else request.partitions
        results: dict[TopicPartition, Errors] = {}
        wanted: list[TopicPartition] = []
        for tp in asked:
            known = context.leaderships.get(tp)
            if tp not in context.assignments or known is None:
                results[tp] = Errors.UNKNOWN_TOPIC_OR_PARTITION
                continue
            if context.deleting(tp.topic):
                results[tp] = Errors.INVALID_TOPIC_EXCEPTION
                continue
            leader = known.state.leader
            preferred = context.assignments[tp].replicas[0]
            satisfied = context.is_live(leader) if unclean else leader == preferred
            if not satisfied:
                wanted.append(tp)
            elif not every:
                results[tp] = Errors.ELECTION_NOT_NEEDED
        strategy = Strategy.UNCLEAN if unclean else Strategy.PREFERRED
        done = yield from controller.maintenance.elect(wanted, strategy, "preferred")
        missing = (
            Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
            if unclean
            else Errors.PREFERRED_LEADER_NOT_AVAILABLE
        )
        for tp in wanted:
            results[tp] = NONE if tp in done else missing
        return ElectLeadersResponse(NONE, tuple(results.items()))

    def _allocate(self, request: AllocateProducerIdsRequest) -> Steps:
        answer = yield from self.controller.maintenance.allocate_producer_ids(
            request.broker_id, request.broker_epoch
        )
        return answer

    # -------------------------------------------------------------------- answers of the brokers

    def on_answer(self, broker: int, request: Any, response: Any) -> None:
        """Learn of failed log directories from LeaderAndIsr, and of deletions from StopReplica
        (TopicDeletionStopReplicaResponseReceived); a refused request is not repeated."""
        if isinstance(request, LeaderAndIsrRequest):
            self._on_roles(broker, response)
            return
        if not isinstance(request, StopReplicaRequest):
            return
        deleted = [each.tp for each in request.partitions if each.delete_partition]
        if not deleted:
            return
        refused = dict(response.partitions)
        controller = self.controller

        def steps() -> Steps:
            context = controller.context
            mine = [tp for tp in deleted if context.deleting(tp.topic)]
            if not controller.is_active or not mine:
                return
            ok: list[Replica] = []
            bad: list[Replica] = []
            for tp in mine:
                error = response.error if response.error is not NONE else refused.get(tp, NONE)
                (ok if error is NONE else bad).append((tp, broker))
            if bad:
                yield from controller.deletion.fail(bad)
            if ok:
                yield from controller.deletion.complete(ok)

        controller.put("TopicDeletionStopReplicaResponseReceived", steps)

    def _on_roles(self, broker: int, response: LeaderAndIsrResponse) -> None:
        """Kafka queues an event for every answer; most have nothing to say."""
        controller = self.controller
        if response.error is not NONE:
            return
        failed = any(error is Errors.KAFKA_STORAGE_ERROR for _, error in response.partitions)
        if failed or controller.context.offline_dirs.get(broker):
            steps = partial(controller.maintenance.on_roles, broker, response.partitions)
            controller.put("LeaderAndIsrResponseReceived", steps)


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
