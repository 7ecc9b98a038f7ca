"""How an old consumer gets its partitions: ZKRebalancerListener.

Nobody coordinates the group. Every consumer watches the registry of consumers. When one comes or
goes, each of them stops fetching, deletes its owners' znodes, reads the registries, computes the
assignment for itself, and claims its share by creating the owners' znodes. A conflict is a znode
that is another's: its owner has not given it up yet, or has read another list of consumers. Then
the consumer gives up what it has claimed, waits rebalance.backoff.ms, and tries again, up to
rebalance.max.retries times. A consumer whose attempts have all failed stays in the group without
partitions, and its share without an owner, until the next change of the group (KAFKA.md, 3.5).

The offset of a partition is read before the partition is claimed. So an offset that its owner
commits in between is missed, and its records are delivered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.client.exceptions import ConsumerRebalanceFailedError, KafkaError
from kafkasim.model.client.legacy.assignors import ASSIGNORS
from kafkasim.model.client.legacy.streams import PartitionTopicInfo
from kafkasim.model.client.legacy.threads import Condition, Lock, Sleep
from kafkasim.model.client.legacy.zk_client import logged
from kafkasim.model.controller.zk.store.zk_data import BROKER_IDS
from kafkasim.model.facts import (
    ConsumerAssigned,
    ConsumerRevoked,
    PartitionOwner,
    Positioned,
    RebalanceAttempt,
    Rebalanced,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkasim.model.client.legacy.assignors import Assignment, AssignmentContext
    from kafkasim.model.client.legacy.fetchers import FetcherManager
    from kafkasim.model.client.legacy.registry import GroupRegistry
    from kafkasim.model.client.legacy.streams import Stream
    from kafkasim.model.client.legacy.threads import Steps
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import LegacyConsumerConfig
    from kafkasim.model.effects import Process
    from kafkasim.model.records import TopicPartition

NO_VERSION = -1
"""The generation before the first rebalance."""


class Rebalancer:
    """Claims and releases the partitions of one consumer.

    ``commit()`` are the steps that commit what the application has got. ``partitions`` are those
    that the consumer takes for its own (topicRegistry), ``checkpointed`` the offsets that ZooKeeper
    has of them.
    """

    def __init__(
        self,
        process: Process,
        consumer: str,
        config: LegacyConsumerConfig,
        rules: ClientRules,
        registry: GroupRegistry,
        fetchers: FetcherManager,
        streams: Mapping[str, Stream],
        commit: Callable[[], Steps],
    ) -> None:
        self.process = process
        self.consumer = consumer
        self.config = config
        self.rules = rules
        self.registry = registry
        self.fetchers = fetchers
        self.streams = streams
        self.lock = Lock(process)  # rebalanceLock
        self.partitions: dict[TopicPartition, PartitionTopicInfo] = {}
        self.checkpointed: dict[TopicPartition, int] = {}
        self.shutting_down = False
        self._commit = commit
        self._threads = registry.zk.threads
        self._triggered = False
        self._trigger = Condition(process)
        self._generation = NO_VERSION  # the cversion of the ids' znode at the last assignment

    # The watcher thread.

    def triggered(self) -> Steps:
        """Have the watcher thread rebalance (rebalanceEventTriggered); a listener of ZkClient."""
        self._triggered = True
        self._trigger.notify(self._threads.now)
        yield from ()

    def watch(self) -> Steps:
        """Rebalance whenever a listener asks for it; several requests become one."""
        while not self.shutting_down:
            while not self._triggered:
                yield self._trigger
            self._triggered = False
            yield from logged(self.synced_rebalance())

    # Rebalances.

    def session_lost(self) -> None:
        """Forget what the consumer owned: its znodes went with the session (resetState)."""
        if not self.rules.keeps_partitions_of_lost_session():
            self.partitions = {}

    def synced_rebalance(self) -> Steps:
        """Try until an attempt succeeds; one thread at a time.

        Raises:
            ConsumerRebalanceFailedError: none did.
        """
        yield from self.lock.acquire()
        began = self._threads.now
        retries = self.config.rebalance_max_retries
        for attempt in range(1, retries + 1):
            outcome, reason = "", ""
            if not self.shutting_down:
                try:
                    outcome = yield from self._rebalance()
                except KafkaError as error:
                    outcome, reason = "error", str(error)
                self._tell(RebalanceAttempt, attempt, outcome, reason)
            if outcome in ("", "done", "no-brokers"):
                if outcome == "done":
                    self._tell(Rebalanced, self._generation, self._threads.now - began)
                self.lock.release(self._threads.now)
                return
            yield from self._close_fetchers()
            yield Sleep(self.config.rebalance_backoff_ms * 1000)
        self.lock.release(self._threads.now)
        self._tell(RebalanceAttempt, retries, "gave-up", "")
        raise ConsumerRebalanceFailedError(
            "CONSUMER_REBALANCE_FAILED",
            f"{self.consumer} can't rebalance after {retries} retries",
        )

    def _rebalance(self) -> Steps:
        """Make one attempt; return its outcome.

        Raises:
            KafkaError: a znode was not there any more when it was read.
        """
        yield from self.registry.cluster()
        yield from self.registry.subscription(self.consumer)
        if not (yield from self.registry.brokers()):
            yield from self.registry.zk.subscribe_children(BROKER_IDS, self.triggered)
            return "no-brokers"
        if self.rules.stops_fetchers_before_release():
            yield from self._close_fetchers()
        else:
            yield from self._commit()
        yield from self._release()
        context = yield from self.registry.assignment_context(self.consumer)
        assignment = ASSIGNORS[self.config.partition_assignment_strategy](context)
        offsets = {}
        for tp in assignment:
            offsets[tp] = yield from self.registry.committed(tp)
        if self.shutting_down:
            return "conflict"
        self.checkpointed.update(offsets)
        if not (yield from self._claim(assignment)):
            return "conflict"
        self._take_over(context, offsets)
        return "done"

    def _close_fetchers(self) -> Steps:
        """Let the application get no more records, and commit those that it has got.

        Nothing is released yet: the next owner goes on from this commit (closeFetchersForQueues).
        """
        self.stop_reading()
        if self.rules.commits_at_rebalance(self.config.auto_commit_enable):
            yield from self._commit()

    def stop_reading(self) -> None:
        """Stop the fetchers and drop what was fetched."""
        reading = self.fetchers.partitions
        if reading:
            lost = not self.partitions
            self._tell(ConsumerRevoked, self._generation, _names(reading), lost)
        self.fetchers.stop()
        for stream in self.streams.values():
            stream.clear(self._threads.now)

    def _release(self) -> Steps:
        """Delete the owners' znodes (releasePartitionOwnership)."""
        for tp in list(self.partitions):
            yield from self._give_up(tp)
            self.partitions.pop(tp, None)

    def _give_up(self, tp: TopicPartition) -> Steps:
        self._tell(PartitionOwner, tp.topic, tp.partition, "released", "")
        yield from self.registry.release(tp)

    def _claim(self, assignment: Assignment) -> Steps:
        """Create the owners' znodes; return whether all of them are the consumer's now.

        If one is not, the others are given up again (reflectPartitionOwnershipDecision).
        """
        claimed = []
        for tp, thread in assignment.items():
            owner = yield from self.registry.claim(tp, thread)
            event = "conflict" if owner else "claimed"
            self._tell(PartitionOwner, tp.topic, tp.partition, event, owner)
            if not owner:
                claimed.append(tp)
        if len(claimed) == len(assignment):
            return True
        for tp in claimed:
            yield from self._give_up(tp)
        return False

    def _take_over(self, context: AssignmentContext, offsets: dict[TopicPartition, int]) -> None:
        """Fetch the claimed partitions from their committed offsets (updateFetcher)."""
        if self.fetchers.partitions:  # only by the rules before KAFKA-228
            self.stop_reading()
        self._generation = context.version
        self.partitions = {tp: PartitionTopicInfo(tp, offset) for tp, offset in offsets.items()}
        self._tell(ConsumerAssigned, context.version, _names(offsets))
        for tp, offset in offsets.items():
            if offset >= 0:
                self.positioned(tp, offset, "committed")
        self.fetchers.start(list(self.partitions.values()), self._threads.now)

    def positioned(self, tp: TopicPartition, offset: int, reason: str) -> None:
        """Tell the trace where reading goes on."""
        topic_id = self.registry.topic_ids.get(tp.topic, "")
        self._tell(Positioned, topic_id, tp.partition, offset, reason)

    def _tell(self, kind: Callable[..., object], *values: object) -> None:
        """Record a fact about this consumer of its group."""
        self.process.out.append(kind(self.config.group_id, self.consumer, *values))


def _names(partitions: Mapping[TopicPartition, object]) -> tuple[str, ...]:
    return tuple([f"{tp.topic}-{tp.partition}" for tp in partitions])
