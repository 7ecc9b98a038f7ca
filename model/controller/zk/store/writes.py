"""What the controller reads from and writes to ZooKeeper, and the facts of its writes.

Every write is a multi that first checks /controller_epoch against the version this controller wrote
(KAFKA-6082): BADVERSION there means that another one has been elected, :class:`ControllerMoved`.
A partition's facts are appended when the answer to its write comes, before any broker is told, with
the transaction's zxid as metadata offset; a new controller repeats what it finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.zk.context import ControllerContext, Leadership
from kafkasim.model.controller.zk.events import ControllerMoved, Steps
from kafkasim.model.controller.zk.store.zk_data import (
    CONTROLLER_EPOCH,
    PartitionState,
    partition_path,
    partitions_path,
    state_path,
)
from kafkasim.model.facts import PartitionChanged, ZkControllerWrite
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import (
    Check,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    Op,
    SetData,
    ZkError,
    ZkResult,
)

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.rules import ZkControllerRules

OK = ZkError.OK
Written = dict[TopicPartition, Leadership]


class ControllerStore:
    """ZooKeeper as the controller sees it; all methods are steps of an event."""

    def __init__(
        self, out: list[Any], context: ControllerContext, rules: ZkControllerRules
    ) -> None:
        self.out = out
        self.context = context
        self.rules = rules
        self.reason = ""  # of the changes that are being made, for the trace
        # Refused writes that may be ours all the same: the first answer was lost and they were sent
        # again. With the version they would have, and whether the election was unclean.
        self._unsure: dict[TopicPartition, tuple[PartitionState, int, bool]] = {}

    # ------------------------------------------------------------------------------ any writes

    def write(self, *ops: Create | Delete | SetData) -> Steps:
        """Write each operation in its own guarded multi; return the result of each.

        Raises:
            ControllerMoved: another controller has been elected.
        """
        context = self.context
        multis: list[Op] = [self.guarded(op) for op in ops]
        results = yield tuple(multis)
        answers: list[ZkResult] = []
        for op, result in zip(ops, results, strict=True):
            if result.error is ZkError.BADVERSION and len(result.results) > 1:
                if result.results[0].error is ZkError.BADVERSION:
                    raise ControllerMoved(op.path)
            # A multi's own answer says what went wrong first: that of its only other operation.
            own = result.results[-1] if result.results else ZkResult(result.error)
            if result.error is OK:
                version = own.stat.version if own.stat is not None else -1
                self.out.append(ZkControllerWrite(result.zxid, context.epoch, op.path, version))
            answers.append(ZkResult(result.error, own.path, own.data, own.stat, zxid=result.zxid))
        return tuple(answers)

    def guarded(self, op: Create | Delete | SetData) -> Multi:
        """Return an operation behind the check of the controller epoch."""
        guards = self.rules.guards(Check(CONTROLLER_EPOCH, self.context.epoch_zk_version))
        return Multi((*guards, op))  # type: ignore[arg-type]

    def delete_recursive(self, path: str) -> Steps:
        """Delete a znode and all below it, leaves first (deleteRecursive); return the zxid."""
        (found,) = yield (GetChildren(path),)
        for child in found.children:
            yield from self.delete_recursive(f"{path}/{child}")
        if found.error is not OK:
            return -1
        (deleted,) = yield from self.write(Delete(path))
        return deleted.zxid

    # ------------------------------------------------------------------------- partition states

    def read_states(self, partitions: list[TopicPartition]) -> Steps:
        """Return the leaderships that are in ZooKeeper (getTopicPartitionStates)."""
        results = yield tuple([GetData(state_path(tp)) for tp in partitions])
        found: Written = {}
        for tp, result in zip(partitions, results, strict=True):
            if result.error is OK:
                found[tp] = Leadership(result.data, result.stat.version)
                self._tell_unsure(tp, found[tp], result.stat.mzxid)
        return found

    def _tell_unsure(self, tp: TopicPartition, found: Leadership, zxid: int) -> None:
        """Tell of a write whose answer was lost, now that it is read."""
        state, version, unclean = self._unsure.pop(tp, (None, -1, False))
        if found.state == state and found.version == version:
            self.changed(tp, found, zxid, "unclean" if unclean else self.reason, unclean)

    def load_states(self, partitions: list[TopicPartition]) -> Steps:
        """Read states into the context, and tell of what a predecessor could not tell."""
        results = yield tuple([GetData(state_path(tp)) for tp in partitions])
        for tp, result in zip(partitions, results, strict=True):
            if result.error is OK:
                known = Leadership(result.data, result.stat.version)
                self.context.leaderships[tp] = known
                self.changed(tp, known, result.stat.mzxid, "loaded")

    def create_states(self, wanted: dict[TopicPartition, PartitionState]) -> Steps:
        """Create the znodes of new partitions; return those created."""
        topics = dict.fromkeys([tp.topic for tp in wanted])
        yield from self.write(*[Create(partitions_path(topic), ()) for topic in topics])
        yield from self.write(*[Create(partition_path(tp), ()) for tp in wanted])
        creates = [Create(state_path(tp), state) for tp, state in wanted.items()]
        results = yield from self.write(*creates)
        created: Written = {}
        for (tp, state), result in zip(wanted.items(), results, strict=True):
            if result.error is OK:
                created[tp] = Leadership(state, 0)
                self._adopt(tp, created[tp], result.zxid)
        return created

    def update_states(
        self, wanted: dict[TopicPartition, Leadership], unclean: tuple[TopicPartition, ...] = ()
    ) -> Steps:
        """Write states by compare and set on the zkVersion (updateLeaderAndIsr).

        ``wanted`` holds the new state and the version it replaces. Returns what was written, and
        the partitions whose version is another by now.
        """
        sets = [SetData(state_path(tp), new.state, new.version) for tp, new in wanted.items()]
        results = yield from self.write(*sets)
        written: Written = {}
        retry: list[TopicPartition] = []
        for (tp, new), result in zip(wanted.items(), results, strict=True):
            if result.error is OK:
                written[tp] = Leadership(new.state, new.version + 1)
                self._adopt(tp, written[tp], result.zxid, tp in unclean)
            elif result.error is ZkError.BADVERSION:
                retry.append(tp)
                self._unsure[tp] = (new.state, new.version + 1, tp in unclean)
        return written, retry

    def _adopt(
        self, tp: TopicPartition, known: Leadership, zxid: int, unclean: bool = False
    ) -> None:
        self.context.leaderships[tp] = known
        self.changed(tp, known, zxid, "unclean" if unclean else self.reason, unclean)

    def changed(
        self,
        tp: TopicPartition,
        known: Leadership,
        zxid: int,
        reason: str,
        unclean: bool = False,
    ) -> None:
        """Tell the trace of a partition's new state."""
        context, state = self.context, known.state
        assignment = context.assignments[tp]
        self.out.append(
            PartitionChanged(
                zxid,
                context.topic_ids.get(tp.topic, tp.topic),
                tp.partition,
                state.leader,
                state.leader_epoch,
                known.version,
                state.isr,
                assignment.replicas,
                reason,
                unclean,
                adding_replicas=assignment.adding,
                removing_replicas=assignment.removing,
                leader_recovery_state=state.leader_recovery_state,
            )
        )
