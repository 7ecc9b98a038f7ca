"""Exactly-once source tasks: ExactlyOnceWorkerSourceTask with transaction.boundary=poll (KIP-618).

What one poll() returned and the source offsets behind it are one transaction of the task's own
transactional id. The offset syncs of its records follow once it is committed. Before a task takes
its producer over, the leader has fenced the producers of all tasks before the present settings.

Left out: transactions of checkpoint and heartbeat tasks; transaction.boundary=interval, connector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kafkasim.model.connect.offset_syncs import OffsetSync
from kafkasim.model.connect.workers.work import Work
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.running.mirroring import SIZE, Flow, MirroredTopics, SourceTask
from kafkasim.sim.apps.client_port import ClientPort


def transactional_id(group: str, work: Work) -> str:
    """Return the transactional id of a task (Worker.taskTransactionalId)."""
    return f"{group}-{work}"


@dataclass(frozen=True, slots=True)
class Checks:
    """What a task asks its herder before it may write; both raise a KafkaError to stop it."""

    fence: Callable[[], Awaitable[None]]
    """Have the producers of all earlier settings fenced (preProducerCheck)."""
    verify: Callable[[], Awaitable[None]]
    """Check that the task has the newest settings and is this worker's (postProducerCheck)."""


class ExactlyOnceSourceTask(SourceTask):
    """Copies records, each poll() in a transaction with its source offsets."""

    def __init__(
        self, port: ClientPort, flow: Flow, topics: MirroredTopics, suffix: str, checks: Checks
    ) -> None:
        super().__init__(port, flow, topics, suffix)
        self._checks = checks
        self._last: dict[TopicPartition, int] = {}  # of the open transaction: offsets sent last
        self._sent: list[OffsetSync] = []  # its records that are acknowledged

    async def run(self) -> None:
        """Fence what was before, then mirror for ever.

        Raises:
            KafkaError: the herder or a coordinator refuses the task, or its transaction failed.
        """
        await self._checks.fence()
        await self._port.call(f"{self._producer}.init_transactions")
        await self._checks.verify()
        await super().run()

    async def _send(
        self, tp: TopicPartition, offset: int, value: Any, key: Any, timestamp: int
    ) -> None:
        if not self._last:
            await self._port.call(f"{self._producer}.begin_transaction")
        self._last[tp] = offset
        await super()._send(tp, offset, value, key, timestamp)

    def _acknowledged(self, sync: OffsetSync) -> None:
        self._sent.append(sync)

    async def _batch_dispatched(self) -> None:
        """Commit the transaction, then let the offset syncs of its records go."""
        if not self._last:
            return
        for tp, offset in self._last.items():
            record, key = self._flow.contents.write((tp, offset)), f"{tp.topic}-{tp.partition}"
            await self._port.call(
                f"{self._producer}.send", self._flow.offsets_topic, key, record, SIZE, 0, False
            )
        await self._port.call(f"{self._producer}.commit_transaction")
        self._last.clear()
        for sync in self._sent:
            self._writer.acknowledged(sync)
        self._sent.clear()
        self._writer.promote()
        self._fire()

    async def _flush(self) -> None:
        """Do nothing: source offsets are committed with their records."""
