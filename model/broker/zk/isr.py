"""ZkIsrManager: before IBP 2.7 a leader writes its ISR into ZooKeeper itself.

The write is a compare and set on the zkVersion that the leader has cached. When it fails the leader
keeps what it believed: it is not told why, and a leader that missed its replacement tries for ever
(KAFKA-2729). That partitions changed is announced under /isr_change_notification, gathered for 5 s,
so that the controller spreads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.store.zk_data import (
    ISR_CHANGES,
    IsrChange,
    PartitionState,
    state_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import PartitionChanged
from kafkasim.model.messages import AlterPartitionData, AlterPartitionResult
from kafkasim.model.zookeeper.ops import Create, GetData, SetData, ZkError, ZkResult

if TYPE_CHECKING:
    from kafkasim.model.broker.zk.broker import ZkBroker
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partition.isr import Pending
    from kafkasim.model.replication.partition.leader import LeaderPartition

LANE = "alter-partition"
CHECK_US, LINGER_US, MOST_US = 2_500_000, 5_000_000, 60_000_000  # IsrChangeNotificationConfig
TIMER = "isr-change-propagation"


class ZkIsrManager:
    """Takes the place of :class:`kafkasim.model.replication.partition.alter_partition.AlterPartitionManager`."""

    def __init__(self, broker: ZkBroker) -> None:
        self.broker = broker
        self._writing: dict[TopicPartition, None] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_us = 0
        self._last_told_us = 0

    def start(self, now: int) -> None:
        """Begin to announce changes."""
        self._last_told_us = now
        self.broker.timers.arm(TIMER, now + CHECK_US, LANE, self._announce)

    def submit(
        self, data: AlterPartitionData, partition: LeaderPartition, pending: Pending, now: int
    ) -> bool:
        """Write a change; False when one of this partition is on its way."""
        tp = partition.tp
        if tp in self._writing:
            return False
        self._writing[tp] = None
        state = PartitionState(
            partition.leader,
            data.leader_epoch,
            tuple([member for member, _ in data.new_isr]),
            self.broker.control.epochs.get(tp, 0),
            data.leader_recovery_state,
        )

        def written(results: tuple[ZkResult, ...], at: int) -> None:
            self._on_written(results, state, data, partition, pending, at)

        path = state_path(tp)
        write = SetData(path, state, data.partition_epoch)
        self.broker.zk.ask((write, GetData(path)), LANE, written)
        return True

    def _on_written(
        self,
        results: tuple[ZkResult, ...],
        state: PartitionState,
        data: AlterPartitionData,
        partition: LeaderPartition,
        pending: Pending,
        now: int,
    ) -> None:
        tp = partition.tp
        del self._writing[tp]
        key = (data.topic_id, data.partition)
        result, found = results
        version, zxid = data.partition_epoch + 1, result.zxid
        if result.error is ZkError.OK:
            ok = True
        else:  # it may be ours, written before the connection was lost (checkLeaderAndIsrZkData)
            ok = found.error is ZkError.OK and found.data == state
            if ok and found.stat is not None:
                version, zxid = found.stat.version, found.stat.mzxid
        if not ok:
            refused = AlterPartitionResult(*key, Errors.OPERATION_NOT_ATTEMPTED)
            partition.on_alter_result(pending, refused, now)
            return
        self._changed[tp] = None
        self._last_change_us = now
        self.broker.out.append(
            PartitionChanged(
                zxid, *key, state.leader, state.leader_epoch, version, state.isr,
                partition.replicas, data.reason, False,
                leader_recovery_state=state.leader_recovery_state,
            )
        )  # fmt: skip
        done = AlterPartitionResult(
            *key,
            Errors.NONE,
            state.leader,
            state.leader_epoch,
            state.isr,
            version,
            state.leader_recovery_state,
        )
        partition.on_alter_result(pending, done, now)

    def _announce(self, now: int) -> None:
        self.broker.timers.arm(TIMER, now + CHECK_US, LANE, self._announce)
        settled = self._last_change_us + LINGER_US < now or self._last_told_us + MOST_US < now
        if self._changed and settled:
            changes = IsrChange(tuple(self._changed))
            self._changed = {}
            self._last_told_us = now
            path = f"{ISR_CHANGES}/isr_change_"
            self.broker.zk.ask((Create(path, changes, sequential=True),), LANE, _ignore)


def _ignore(results: tuple[ZkResult, ...], now: int) -> None:
    """The announcement is made, or the session expired and the controller reads all anew."""
