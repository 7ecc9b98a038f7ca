"""Moves replicas of partitions (the reassignment half of KafkaController; KIP-455).

RS are a partition's replicas, ORS those it had, TRS its targets, AR those added, RR those removed.

    U   Write RS = ORS + TRS with AR and RR into the topic's znode, then into the context. Stop and
        delete the replicas that an earlier reassignment added and this one does not want.
    A   Not all of TRS are in the ISR: raise the leader epoch, send LeaderAndIsr to all of RS, move
        AR to New.
    B   All of TRS are in the ISR: RS = TRS in the context. Elect a leader from TRS, or raise the
        epoch of the one there. Take RR out of the ISR, stop and delete them. Write RS = TRS into
        the znode last, since the znode is the only place that holds ORS.

A becomes B when an AlterPartition brings the last target into the ISR; before IBP 2.7, when a watch
on the partition's state fires. A new controller finds AR and RR in the topics' znodes and starts
again at A or B. Old tools write /admin/reassign_partitions; that and a request replace each other.
A cancelled reassignment is a reassignment to ORS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import ControllerContext, Leadership, ZkReplicaState
from kafkasim.model.controller.zk.events import StateChangeFailed, Steps
from kafkasim.model.controller.zk.states.elections import Strategy, elected
from kafkasim.model.controller.zk.store.zk_data import (
    REASSIGN_PARTITIONS,
    ReassignPartitions,
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
    from kafkasim.model.controller.zk.channels import RequestBatch
    from kafkasim.model.controller.zk.election import ControllerElection
    from kafkasim.model.controller.zk.events import EventQueue
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.states.deletion import TopicDeletionManager
    from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
    from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore

REASON = "reassignment"
OK, NONE = ZkError.OK, Errors.NONE
Outcome = tuple[Errors, str]
EMPTY = ReplicaAssignment(())


class Reassignments:
    """Begins, continues, lists and cancels reassignments.

    ``watches_isr``: leaders write ISRs themselves (before IBP 2.7), so the controller watches the
    states of partitions being reassigned.
    """

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        batch: RequestBatch,
        rules: ZkControllerRules,
        events: EventQueue,
        election: ControllerElection,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletion: TopicDeletionManager,
        *,
        watches_isr: bool,
    ) -> None:
        self.context = context
        self.store = store
        self.batch = batch
        self.rules = rules
        self.events = events
        self.election = election
        self.partitions = partitions
        self.replicas = replicas
        self.deletion = deletion
        self.watches_isr = watches_isr

    # -------------------------------------------------------------------------------- requests

    def alter(self, request: AlterPartitionReassignmentsRequest) -> Steps:
        """Return the response to a request (processApiPartitionReassignment). Of a partition that
        it names twice, the last row counts."""
        outcomes: dict[TopicPartition, Outcome] = {}
        wanted: dict[TopicPartition, ReplicaAssignment] = {}
        asked = {each.tp: each.replicas for each in request.partitions}
        for tp, replicas in asked.items():
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
        results = tuple([(tp, *outcomes[tp]) for tp in asked])
        return AlterPartitionReassignmentsResponse(NONE, results)

    def ongoing(self, request: ListPartitionReassignmentsRequest) -> Steps:
        """Return the response with the reassignments in progress: all, or those asked for."""
        context = self.context
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
        """Return why the partition cannot move to these replicas, None if it can
        (validateReplicas)."""
        context = self.context
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
        """Return the assignment of a reassignment to ``replicas``; None for them means to cancel.

        Returns None if there is nothing to cancel.
        """
        current = self.context.assignments.get(tp, EMPTY)
        if replicas is None:
            return current.reassign_to(current.origins) if current.being_reassigned else None
        return current.reassign_to(replicas)

    def _trigger(self, wanted: dict[TopicPartition, ReplicaAssignment]) -> Steps:
        """Begin reassignments, except of deleted topics (maybeTriggerPartitionReassignment)."""
        context = self.context
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

    def look_at_znode(self) -> None:
        """Queue the event that reads the znode and watches it."""
        self.events.put("ZkPartitionReassignment", self.election.when_active(self.from_znode))

    def from_znode(self) -> Steps:
        """Begin what old tools ask for in the znode, and watch it; return the partitions begun
        (processZkPartitionReassignment)."""
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
        """Take the partitions for which ``fits`` is True out of the znode; delete an empty one."""
        (found,) = yield (GetData(REASSIGN_PARTITIONS),)
        if found.error is not OK:
            return
        left = tuple([entry for entry in found.data.partitions if not fits(*entry)])
        if left:
            yield from self.store.write(SetData(REASSIGN_PARTITIONS, ReassignPartitions(left)))
            return
        yield from self.store.write(Delete(REASSIGN_PARTITIONS))
        self.look_at_znode()  # and watch for the next one

    # --------------------------------------------------------------------- what lets one go on

    def initialize(self) -> Steps:
        """Go on with the reassignments that a new controller found
        (initializePartitionReassignments)."""
        begun = yield from self.from_znode()
        yield from self._resume([tp for tp in self.context.reassigning
                                 if tp not in begun])  # fmt: skip

    def on_brokers_up(self, brokers: tuple[int, ...]) -> Steps:
        """Go on with the reassignments to brokers that started: send them LeaderAndIsr again."""
        context = self.context
        yield from self._resume(
            [
                tp
                for tp in context.reassigning
                if any(replica in brokers for replica in context.assignments[tp].targets)
            ]
        )

    def _resume(self, partitions: list[TopicPartition]) -> Steps:
        for tp in partitions:
            yield from self.proceed(tp, self.context.assignments[tp])

    def maybe_complete(self, tp: TopicPartition) -> Steps:
        """Complete the partition's reassignment if all targets are in the ISR now
        (maybeCompleteReassignment)."""
        context = self.context
        if tp in context.reassigning:
            assignment = context.assignments[tp]
            if (yield from self._is_complete(tp, assignment)):
                yield from self.proceed(tp, assignment)

    # -------------------------------------------------------------------------------- the phases

    def proceed(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Go through the phases as far as possible now (onPartitionReassignment)."""
        context = self.context
        before = self.store.because(REASON)
        try:
            self.deletion.mark_ineligible([tp.topic])
            yield from self._update(tp, assignment)
            adding = [(tp, replica) for replica in assignment.adding]
            if not (yield from self._is_complete(tp, assignment)):
                yield from self._raise_epoch(tp, assignment)
                self.replicas.to_new(adding)
                return
            self.replicas.to_online(adding)
            completed = ReplicaAssignment(assignment.targets)
            context.assign(tp, completed)
            yield from self._move_leader(tp, completed)
            yield from self._stop(tp, assignment.removing)
            yield from self._write(tp, completed)
            yield from self._finish(tp, completed)
            self.batch.send_update_metadata(context.live_or_shutting_down(), (tp,))
            yield from self.deletion.resume_for([tp.topic])
        finally:
            self.store.because(before)

    def _update(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Phase U (updateCurrentReassignment)."""
        context = self.context
        current = context.assignments[tp]
        if current != assignment:
            zxid = yield from self._write(tp, assignment)
            context.assign(tp, assignment)
            unneeded = [each for each in current.replicas if each not in assignment.replicas]
            if unneeded:
                self.store.changed(tp, context.leaderships[tp], zxid, REASON)
                yield from self._stop(tp, tuple(unneeded))
        context.reassigning[tp] = None

    def _write(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Write one partition's new assignment into the topic's znode; return the zxid.

        Raises:
            StateChangeFailed: ZooKeeper returned an error.
        """
        data = self.context.topic_assignment(tp.topic, {tp.partition: assignment})
        (written,) = yield from self.store.write(SetData(topic_path(tp.topic), data))
        if written.error is not OK:
            raise StateChangeFailed(f"{topic_path(tp.topic)}: {written.error.name}")
        return written.zxid

    def _is_complete(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Return whether all targets are in the ISR that ZooKeeper has."""
        if not assignment.being_reassigned:
            return True
        (found,) = yield (GetData(state_path(tp), watch=self.watches_isr),)
        return found.error is OK and self.rules.is_reassignment_complete(
            assignment.targets, found.data.isr
        )

    def _raise_epoch(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Steps:
        """Raise the leader epoch, keep leader and ISR, and send LeaderAndIsr to all replicas of the
        assignment (updateLeaderEpochAndSendRequest).

        Raises:
            StateChangeFailed: the state is missing, or another controller has written it.
        """
        context, store, batch = self.context, self.store, self.batch
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
        batch.send()

    def _move_leader(self, tp: TopicPartition, completed: ReplicaAssignment) -> Steps:
        """Elect a leader from the targets, or raise the epoch of a leader that is one of them.

        A partition that has never had a leader fails (moveReassignedPartitionLeaderIfRequired).
        """
        context = self.context
        known = context.leaderships.get(tp)
        if known is None:
            raise StateChangeFailed(f"{tp}: it has never had a leader")
        leader = known.state.leader
        if leader in completed.replicas and context.online(leader, tp):
            yield from self._raise_epoch(tp, completed)
        else:
            yield from self.partitions.to_online([tp], Strategy.REASSIGN)

    def _stop(self, tp: TopicPartition, removed: tuple[int, ...]) -> Steps:
        """Take replicas out of the ISR, stop and delete them, without waiting for the answers."""
        replicas = self.replicas
        gone = [(tp, replica) for replica in removed]
        yield from replicas.to_offline(gone)
        replicas.to(gone, ZkReplicaState.DELETION_STARTED)
        replicas.to(gone, ZkReplicaState.DELETION_SUCCESSFUL)
        replicas.to(gone, ZkReplicaState.NON_EXISTENT)

    def _finish(self, tp: TopicPartition, completed: ReplicaAssignment) -> Steps:
        yield from self._forget_in_znode(
            lambda each, replicas: each == tp and replicas == completed.replicas
        )
        del self.context.reassigning[tp]
