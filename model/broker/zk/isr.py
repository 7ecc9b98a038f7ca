"""ZkIsrManager: before inter.broker.protocol.version 2.7 a leader writes its ISR into ZooKeeper.

The write is a compare-and-set on the zkVersion that the leader has cached. A leader whose write is
refused keeps its own idea of the ISR: ZooKeeper does not tell it why, and a leader that has missed
its own replacement tries for ever (KAFKA-2729). Partitions whose ISR changed are collected for 5 s
and announced below /isr_change_notification, so that the controller tells the other brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.store.zk_data import (
    ISR_CHANGES,
    IsrChange,
    LeaderAndIsr,
    state_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import PartitionChanged
from kafkasim.model.messages import AlterPartitionData, AlterPartitionResult
from kafkasim.model.zookeeper.ops import Create, GetData, SetData, ZkError, ZkResult

if TYPE_CHECKING:
    from kafkasim.model.broker.zk.control import ControllerEpochs
    from kafkasim.model.controller.zk.store.client import KafkaZkClient
    from kafkasim.model.effects import Process
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.isr import IsrState
    from kafkasim.model.replication.partitions.ports import IsrProposer

LANE = "alter-partition"
CHECK_US, LINGER_US, MOST_US = 2_500_000, 5_000_000, 60_000_000  # IsrChangeNotificationConfig
TIMER = "isr-change-propagation"


class ZkIsrManager:
    """Takes the place of an AlterPartitionManager (``submit``)."""

    def __init__(self, process: Process, zk: KafkaZkClient, epochs: ControllerEpochs) -> None:
        self.process = process
        self.zk = zk
        self.epochs = epochs
        self._writing: dict[TopicPartition, None] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_us = 0
        self._last_announced_us = 0

    def start(self, now: int) -> None:
        """Begin to announce ISR changes."""
        self._last_announced_us = now
        self.process.timers.arm(TIMER, now + CHECK_US, LANE, self._announce)

    def submit(
        self, data: AlterPartitionData, leader: IsrProposer, pending: IsrState, now: int
    ) -> bool:
        """Write an ISR change; return False if a write for this partition is in flight."""
        tp = leader.tp
        if tp in self._writing:
            return False
        self._writing[tp] = None
        state = LeaderAndIsr(
            leader.leader_id,
            data.leader_epoch,
            tuple([member for member, _ in data.new_isr]),
            self.epochs.of_partition.get(tp, 0),
            data.leader_recovery_state,
        )

        def written(results: tuple[ZkResult, ...], at: int) -> None:
            self._on_written(results, state, data, leader, pending, at)

        path = state_path(tp)
        write = SetData(path, state, data.partition_epoch)
        self.zk.ask((write, GetData(path)), LANE, written)
        return True

    def _on_written(
        self,
        results: tuple[ZkResult, ...],
        state: LeaderAndIsr,
        data: AlterPartitionData,
        leader: IsrProposer,
        pending: IsrState,
        now: int,
    ) -> None:
        tp = leader.tp
        del self._writing[tp]
        key = (data.topic_id, data.partition)
        result, found = results
        version, zxid = data.partition_epoch + 1, result.zxid
        if result.error is ZkError.OK:
            ok = True
        else:  # perhaps our own write, whose answer was lost (checkLeaderAndIsrZkData)
            ok = found.error is ZkError.OK and found.data == state
            if ok and found.stat is not None:
                version, zxid = found.stat.version, found.stat.mzxid
        if not ok:
            refused = AlterPartitionResult(*key, Errors.OPERATION_NOT_ATTEMPTED)
            leader.on_alter_result(pending, refused, now)
            return
        self._changed[tp] = None
        self._last_change_us = now
        self.process.out.append(
            PartitionChanged(
                zxid, *key, state.leader, state.leader_epoch, version, state.isr,
                leader.replicas, data.reason, False,
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
        leader.on_alter_result(pending, done, now)

    def _announce(self, now: int) -> None:
        self.process.timers.arm(TIMER, now + CHECK_US, LANE, self._announce)
        settled = self._last_change_us + LINGER_US < now or self._last_announced_us + MOST_US < now
        if self._changed and settled:
            changes = IsrChange(tuple(self._changed))
            self._changed = {}
            self._last_announced_us = now
            path = f"{ISR_CHANGES}/isr_change_"
            self.zk.ask((Create(path, changes, sequential=True),), LANE, _ignore)


def _ignore(results: tuple[ZkResult, ...], now: int) -> None:
    """Do nothing: either it is announced, or the session expired and the controller reads all."""
