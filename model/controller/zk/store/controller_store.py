"""The controller's reads from and writes to ZooKeeper, and the facts about its writes.

Every write is a multi that first checks the version of /controller_epoch that this controller wrote
(KAFKA-6082). BADVERSION of that check means that another controller was elected; the write raises
:class:`ControllerMoved`. The fact about a partition's change is recorded when ZooKeeper answers the
write, before any broker is told. Its metadata offset is the zxid of the transaction. A new
controller records the states that it finds once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.zk.context import ControllerContext, Leadership
from kafkasim.model.controller.zk.events import ControllerMoved, Steps
from kafkasim.model.controller.zk.store.zk_data import (
    BROKER_IDS,
    CONTROLLER_EPOCH,
    LeaderAndIsr,
    broker_path,
    partition_path,
    partitions_path,
    state_path,
)
from kafkasim.model.facts import (
    BrokerRegistration,
    PartitionChanged,
    StateChangeFailed,
    ZkControllerWrite,
)
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
    """ZooKeeper as the controller uses it. Methods that return Steps are parts of an event."""

    def __init__(
        self, out: list[Any], context: ControllerContext, rules: ZkControllerRules
    ) -> None:
        self.out = out
        self.context = context
        self.rules = rules
        self.reason = ""
        self.brokers_zxid = -1  # the last transaction that the latest read of brokers has seen
        # Writes that were refused although they may have succeeded: the reply to the first attempt
        # was lost and the second found a new version. With each: the data, the version that it
        # would have, and whether the election was unclean.
        self._unsure: dict[TopicPartition, tuple[LeaderAndIsr, int, bool]] = {}

    def because(self, reason: str) -> str:
        """Set the cause of partition changes from now on, for the trace; return the one before."""
        before, self.reason = self.reason, reason
        return before

    # ------------------------------------------------------------------------------------- reads

    def children(self, path: str) -> Steps:
        """Return the names of a znode's children and set a watch."""
        (found,) = yield (GetChildren(path, watch=True),)
        return list(found.children)

    def brokers(self) -> Steps:
        """Return each registered broker and its epoch by id, and set a watch
        (getAllBrokerAndEpochsInCluster)."""
        (children,) = yield (GetChildren(BROKER_IDS, watch=True),)
        self.brokers_zxid = children.zxid
        names = children.children
        results = yield tuple([GetData(broker_path(int(name))) for name in names])
        found = [(r.data, r.stat.czxid) for r in results if r.error is OK]
        return {
            info.id: (info, epoch) for info, epoch in sorted(found, key=lambda each: each[0].id)
        }

    def record_registered(self, brokers: tuple[int, ...]) -> None:
        """Record in the trace that brokers are registered, the oldest registration first."""
        context = self.context
        for broker in sorted(brokers, key=lambda each: context.broker_epochs[each]):
            epoch, rack = context.broker_epochs[broker], context.brokers[broker].rack
            self.out.append(
                BrokerRegistration(epoch, broker, epoch, "registered", False, False, rack)
            )

    # ------------------------------------------------------------------------------ any writes

    def write(self, *ops: Create | Delete | SetData) -> Steps:
        """Perform each operation in a guarded multi of its own; return the result of each.

        Raises:
            ControllerMoved: another controller was elected.
        """
        context = self.context
        multis: list[Op] = [self.guarded(op) for op in ops]
        results = yield tuple(multis)
        answers: list[ZkResult] = []
        for op, result in zip(ops, results, strict=True):
            if result.error is ZkError.BADVERSION and len(result.results) > 1:
                if result.results[0].error is ZkError.BADVERSION:
                    raise ControllerMoved(op.path)
            # The last result of a multi is that of the operation behind the check.
            own = result.results[-1] if result.results else ZkResult(result.error)
            if result.error is OK:
                version = own.stat.version if own.stat is not None else -1
                self.out.append(ZkControllerWrite(result.zxid, context.epoch, op.path, version))
            answers.append(ZkResult(result.error, own.path, own.data, own.stat, zxid=result.zxid))
        return tuple(answers)

    def guarded(self, op: Create | Delete | SetData) -> Multi:
        """Return a multi of the check of the controller epoch and the operation."""
        guards = self.rules.guards(Check(CONTROLLER_EPOCH, self.context.epoch_zk_version))
        return Multi((*guards, op))  # type: ignore[arg-type]

    def delete_recursive(self, path: str) -> Steps:
        """Delete a znode and its descendants, leaves first (deleteRecursive).

        Returns the zxid of the last deletion, −1 if the znode did not exist.
        """
        (found,) = yield (GetChildren(path),)
        for child in found.children:
            yield from self.delete_recursive(f"{path}/{child}")
        if found.error is not OK:
            return -1
        (deleted,) = yield from self.write(Delete(path))
        return deleted.zxid

    # ------------------------------------------------------------------------- partition states

    def read_states(self, partitions: list[TopicPartition]) -> Steps:
        """Return the leaderships that ZooKeeper has (getTopicPartitionStates)."""
        results = yield tuple([GetData(state_path(tp)) for tp in partitions])
        found: Written = {}
        for tp, result in zip(partitions, results, strict=True):
            if result.error is OK:
                found[tp] = Leadership(result.data, result.stat.version)
                self._record_unsure(tp, found[tp], result.stat.mzxid)
        return found

    def _record_unsure(self, tp: TopicPartition, found: Leadership, zxid: int) -> None:
        """Record a write that was confirmed by reading it back, because its reply was lost."""
        state, version, unclean = self._unsure.pop(tp, (None, -1, False))
        if found.state == state and found.version == version:
            self.changed(tp, found, zxid, "unclean" if unclean else self.reason, unclean)

    def load_states(self, partitions: list[TopicPartition]) -> Steps:
        """Read states into the context, and record them: the controller that wrote them may have
        failed before it could."""
        results = yield tuple([GetData(state_path(tp)) for tp in partitions])
        for tp, result in zip(partitions, results, strict=True):
            if result.error is OK:
                known = Leadership(result.data, result.stat.version)
                self.context.leaderships[tp] = known
                self.changed(tp, known, result.stat.mzxid, "loaded")

    def create_states(self, wanted: dict[TopicPartition, LeaderAndIsr]) -> Steps:
        """Create the znodes of new partitions; return the leaderships of those created."""
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
            else:
                topic_id = self.context.topic_ids.get(tp.topic, tp.topic)
                self.out.append(StateChangeFailed(topic_id, tp.partition, result.error.name))
        return created

    def update_states(
        self, wanted: dict[TopicPartition, Leadership], unclean: tuple[TopicPartition, ...] = ()
    ) -> Steps:
        """Write states by compare and set on the zkVersion (updateLeaderAndIsr).

        ``wanted`` has the new data and the version that it replaces. Returns the leaderships that
        were written, and the partitions whose znode has another version.
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
        """Record a partition's new state in the trace."""
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
