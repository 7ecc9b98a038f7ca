"""Moves replicas of partitions (the reassignment half of KafkaController; KIP-455).

RS are a partition's replicas, ORS those it had, TRS its targets, AR those added, RR those removed.

    U   write RS = ORS + TRS with AR and RR into the topic's znode, then into memory; replicas that
        an earlier reassignment added and this one does not want are stopped and deleted
    A   not all of TRS are in sync: a new leader epoch, LeaderAndIsr to all of RS, AR become New
    B   they are: RS = TRS in memory; a leader out of TRS, or a new epoch for the one there; RR leave
        the ISR, are stopped and deleted; RS = TRS in the znode, last, since only there ORS stands

A begins B when an AlterPartition brings the last target into the ISR; before IBP 2.7 a watch on the
partition's state does. A new controller finds AR and RR in the topics' znodes and begins anew at A
or B. What stands in /admin/reassign_partitions, the way of old tools, supplants and is supplanted
by requests. A cancelled reassignment is one to ORS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import (
    DELETION_STARTED,
    DELETION_SUCCESSFUL,
    NON_EXISTENT,
    Leadership,
)
from kafkasim.model.controller.zk.events import StateChangeFailed, Steps
from kafkasim.model.controller.zk.states.elections import Strategy, elected
from kafkasim.model.controller.zk.store.zk_data import (
    REASSIGN_PARTITIONS,
    Reassignment,
    ReplicaAssignment,
    state_path,
    topic_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import Delete, Exists, GetData, SetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.controller import KafkaController

REASON = "reassignment"
OK, NONE = ZkError.OK, Errors.NONE
Outcome = tuple[Errors, str]
EMPTY = ReplicaAssignment(())


class Reassignments:
    """Begins, continues, lists and cancels reassignments."""

    def __init__(self, controller: KafkaController) -> None:
        self.controller = controller

    # -------------------------------------------------------------------------------- requests

    def alter(self, request: AlterPartitionReassignmentsRequest) -> Steps:
        """Return the answer to a request (processApiPartitionReassignment)."""
        outcomes: dict[TopicPartition, Outcome] = {}
        wanted: dict[TopicPartition, ReplicaAssignment] = {}
        for asked in request.partitions:
            tp, replicas = asked.tp, asked.replicas
            problem = None if replicas is None else self._problem(tp, replicas)
            found = self._build(tp, replicas)
            if problem is not None:
                outcomes[tp] = (Errors.INVALID_REPLICA_ASSIGNMENT, problem)
            elif found is None:
                outcomes[tp] = (Errors.NO_REASSIGNMENT_IN_PROGRESS, "")
            else:
                wanted[tp] = found
        yield from self._forget_in_znode(lambda tp, _: tp in wanted)
        outcomes.update((yield from self._trigger(wanted)))
        results = tuple([(asked.tp, *outcomes[asked.tp]) for asked in request.partitions])
        return AlterPartitionReassignmentsResponse(NONE, results)

    def ongoing(self, request: ListPartitionReassignmentsRequest) -> Steps:
        """Return the reassignments in progress, of all partitions or of those asked for."""
        context = self.controller.context
        asked = tuple(context.reassigning) if request.partitions is None else request.partitions
        found = []
        for tp in asked:
            entry = context.assignments.get(tp, EMPTY)
            if entry.being_reassigned:
                found.append(
                    OngoingPartitionReassignment(tp, entry.replicas, entry.adding, entry.removing)
                )
        yield from ()
        return ListPartitionReassignmentsResponse(NONE, tuple(found))

    def _problem(self, tp: TopicPartition, replicas: tuple[int, ...]) -> str | None:
        """Return why these are no replicas to move to (validateReplicas)."""
        context = self.controller.context
        if not replicas:
            return "The list of replicas is empty."
        if len(dict.fromkeys(replicas)) != len(replicas):
            return f"The list of replicas names a broker twice: {replicas}."
        if any(replica < 0 for replica in replicas):
            return f"The list of replicas holds an invalid broker id: {replicas}."
        adding = context.assignments.get(tp, EMPTY).reassign_to(replicas).adding
        dead = [replica for replica in adding if not context.is_live(replica)]
        return f"Brokers {dead} are not alive." if dead else None

    def _build(
        self, tp: TopicPartition, replicas: tuple[int, ...] | None
    ) -> ReplicaAssignment | None:
        """Return the assignment to go on with; None where there is nothing to cancel."""
        current = self.controller.context.assignments.get(tp, EMPTY)
        if replicas is None:
            return current.reassign_to(current.origins) if current.being_reassigned else None
        return current.reassign_to(replicas)

    def _trigger(self, wanted: dict[TopicPartition, ReplicaAssignment]) -> Steps:
        """Begin reassignments of topics that stay (maybeTriggerPartitionReassignment)."""
        context = self.controller.context
        outcomes: dict[TopicPartition, Outcome] = {}
        for tp, assignment in wanted.items():
            if context.deleting(tp.topic) or tp not in context.assignments:
                message = "The partition does not exist."
                outcomes[tp] = (Errors.UNKNOWN_TOPIC_OR_PARTITION, message)
                continue
            try:
                yield from self.proceed(tp, assignment)
                outcomes[tp] = (NONE, "")
            except StateChangeFailed as failure:
                outcomes[tp] = (Errors.UNKNOWN_SERVER_ERROR, str(failure))
        return outcomes

    # ------------------------------------------------------------- /admin/reassign_partitions

    def from_znode(self) -> Steps:
        """Begin what old tools ask for; return its partitions (processZkPartitionReassignment)."""
        _, found = yield (Exists(REASSIGN_PARTITIONS, watch=True), GetData(REASSIGN_PARTITIONS))
        if found.error is not OK:
            return []
        wanted = {tp: self._build(tp, replicas) for tp, replicas in found.data.partitions}
        outcomes = yield from self._trigger(
            {tp: entry for tp, entry in wanted.items() if entry is not None}
        )
        failed = [tp for tp, (error, _) in outcomes.items() if error is not NONE]
        if failed:
            yield from self._forget_in_znode(lambda tp, _: tp in failed)
        return [tp for tp in outcomes if tp not in failed]

    def _forget_in_znode(self, fits: Callable[[TopicPartition, tuple[int, ...]], bool]) -> Steps:
        """Take partitions out of the znode, and delete it when it is empty."""
        controller = self.controller
        (found,) = yield (GetData(REASSIGN_PARTITIONS),)
        if found.error is not OK:
            return
        left = tuple([entry for entry in found.data.partitions if not fits(*entry)])
        if left:
            yield from controller.store.write(SetData(REASSIGN_PARTITIONS, Reassignment(left)))
            return
        yield from controller.store.write(Delete(REASSIGN_PARTITIONS))
        controller.on_reassign_znode()  # watches for the next one

    # --------------------------------------------------------------------- what lets one go on

    def initialize(self) -> Steps:
        """A new controller goes on with what it found (initializePartitionReassignments)."""
        begun = yield from self.from_znode()
        yield from self._resume([tp for tp in self.controller.context.reassigning
                                 if tp not in begun])  # fmt: skip

    def on_brokers_up(self, brokers: tuple[int, ...]) -> Steps:
        """Targets are up again: they hear anew of what they shall replicate."""
        context = self.controller.context
        yield from self._resume(
            [
                tp
                for tp in context.reassigning
                if any(replica in brokers for replica in context.assignments[tp].targets)
            ]
        )

    def _resume(self, partitions: list[TopicPartition]) -> Steps:
        for tp in partitions:
            yield from self.proceed(tp, self.controller.context.assignments[tp])

    def maybe_complete(self, tp: TopicPartition) -> Steps:
        """An ISR has changed (maybeCompleteReassignment)."""
        context = self.controller.context
        if tp in context.reassigning:
            assignment = context.assignments[tp]
            if (yield from self._is_complete(tp, assignment)):
                yield from self.proceed(tp, assignment)

    # -------------------------------------------------------------------------------- the phases

    def proceed(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Go through the phases as far as they go now (onPartitionReassignment)."""
        controller = self.controller
        context, store = controller.context, controller.store
        reason, store.reason = store.reason, REASON
        try:
            controller.deletion.mark_ineligible([tp.topic])
            yield from self._update(tp, assignment)
            adding = [(tp, replica) for replica in assignment.adding]
            if not (yield from self._is_complete(tp, assignment)):
                yield from self._raise_epoch(tp, assignment)
                controller.replicas.to_new(adding)
                return
            controller.replicas.to_online(adding)
            completed = context.assignments[tp] = ReplicaAssignment(assignment.targets)
            yield from self._move_leader(tp, completed)
            yield from self._stop(tp, assignment.removing)
            yield from self._write(tp, completed)
            yield from self._finish(tp, completed)
            yield from controller.send_update_metadata(context.live_or_shutting_down(), [tp])
            yield from controller.deletion.resume_for([tp.topic])
        finally:
            store.reason = reason

    def _update(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Phase U (updateCurrentReassignment)."""
        context = self.controller.context
        current = context.assignments[tp]
        if current != assignment:
            yield from self._write(tp, assignment)
            context.assignments[tp] = assignment
            unneeded = [each for each in current.replicas if each not in assignment.replicas]
            yield from self._stop(tp, tuple(unneeded))
        context.reassigning[tp] = None

    def _write(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Write the topic's znode with one partition's new assignment."""
        controller = self.controller
        data = controller.context.topic_assignment(tp.topic, {tp.partition: assignment})
        (written,) = yield from controller.store.write(SetData(topic_path(tp.topic), data))
        if written.error is not OK:
            raise StateChangeFailed(f"{topic_path(tp.topic)}: {written.error.name}")

    def _is_complete(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Return whether all targets are in sync, as ZooKeeper says; watch where leaders write."""
        if not assignment.being_reassigned:
            return True
        controller = self.controller
        watch = not controller.config.alter_partition_enabled
        (found,) = yield (GetData(state_path(tp), watch=watch),)
        return found.error is OK and controller.rules.is_reassignment_complete(
            assignment.targets, found.data.isr
        )

    def _raise_epoch(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Tell all replicas of the assignment, under a new leader epoch; leader and ISR stay
        (updateLeaderEpochAndSendRequest)."""
        controller = self.controller
        context, store, batch = controller.context, controller.store, controller.batch
        retry = [tp]
        while retry:
            known = (yield from store.read_states([tp])).get(tp)
            if known is None:
                raise StateChangeFailed(f"{tp} has no state")
            state = known.state
            if state.controller_epoch > context.epoch:
                raise StateChangeFailed(f"{tp}: written by another controller")
            wanted = elected(state, state.leader, state.isr, context.epoch)
            written, retry = yield from store.update_states({tp: Leadership(wanted, known.version)})
            if not written and not retry:
                raise StateChangeFailed(f"{tp}: the leader epoch is not written")
        batch.new_batch()
        batch.add_leader_and_isr(assignment.origins, tp)
        batch.add_leader_and_isr(assignment.adding, tp, is_new=True)
        batch.send(controller.queue.now)

    def _move_leader(self, tp: TopicPartition, completed: ReplicaAssignment) -> Steps:
        """Elect a target, or let the leader hear that the others are no replicas any more."""
        controller = self.controller
        context = controller.context
        leader = context.leaderships[tp].state.leader
        if leader in completed.replicas and context.online(leader, tp):
            yield from self._raise_epoch(tp, completed)
        else:
            yield from controller.partitions.to_online([tp], Strategy.REASSIGN)

    def _stop(self, tp: TopicPartition, removed: tuple[int, ...]) -> Steps:
        """Take replicas out of the ISR, stop and delete them; nobody waits for their answers."""
        replicas = self.controller.replicas
        gone = [(tp, replica) for replica in removed]
        yield from replicas.to_offline(gone)
        replicas.to(gone, DELETION_STARTED)
        replicas.to(gone, DELETION_SUCCESSFUL)
        replicas.to(gone, NON_EXISTENT)

    def _finish(self, tp: TopicPartition, completed: ReplicaAssignment) -> Steps:
        yield from self._forget_in_znode(
            lambda each, replicas: each == tp and replicas == completed.replicas
        )
        del self.controller.context.reassigning[tp]
