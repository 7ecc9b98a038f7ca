"""The old high-level consumer as an application sees it: ZookeeperConsumerConnector.

Kafka had it from the first release (Kreps, Narkhede, Rao: Kafka, 2011, section 3.2) to 1.1; 2.0
removed it. The application reads streams. Here it calls the methods of the other consumers:
``subscribe`` is createMessageStreams with one stream for each topic, ``poll`` returns one record,
as the iterator of a stream does, and ``commit_sync`` is commitOffsets. There are no events of a
rebalance: the old ConsumerRebalanceListener runs on another thread than the application's.

Not modelled: several streams of a topic in one consumer, white and black lists,
offsets.storage=kafka and dual.commit.enabled, num.consumer.fetchers, ConsumerRebalanceListener.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import (
    ConsumerTimeoutError,
    KafkaError,
    KafkaTimeoutError,
)
from kafkasim.model.client.legacy.fetchers import FetcherManager
from kafkasim.model.client.legacy.rebalancer import Rebalancer
from kafkasim.model.client.legacy.registry import STATIC, ConsumerRegistration, GroupRegistry
from kafkasim.model.client.legacy.streams import Stream
from kafkasim.model.client.legacy.threads import LANE, Lock, Sleep
from kafkasim.model.client.legacy.zk_client import ZkClient
from kafkasim.model.controller.zk.store.zk_data import topic_path
from kafkasim.model.effects import Reply
from kafkasim.model.facts import CommitResult, FinalPosition, OffsetCommitted, Polled
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.completed_fetch import RecordTuple
    from kafkasim.model.client.legacy.streams import Chunk, PartitionTopicInfo
    from kafkasim.model.client.legacy.threads import Steps, Thread
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import LegacyConsumerConfig
    from kafkasim.model.effects import Process

IN_ZOOKEEPER = -1
"""The coordinator epoch of a commit that no coordinator has seen."""


class ZookeeperConsumerConnector:
    """One old consumer of a client process."""

    def __init__(
        self, process: Process, name: str, config: LegacyConsumerConfig, rules: ClientRules
    ) -> None:
        self.process = process
        self.name = name
        self.config = config
        host = f"{process.name}-{process.wall_ms(process.started_us)}"
        self.consumer = f"{config.group_id}_{host}-{process.rng.getrandbits(32):08x}"
        self.streams: dict[str, Stream] = {}  # by topic
        servers = tuple(config.zookeeper_connect.split(","))
        timeout_ms = config.zookeeper_session_timeout_ms
        self.zk = ZkClient(process, name, servers, timeout_ms, self._on_new_session)
        self.registry = GroupRegistry(self.zk, config.group_id)
        self.fetchers = FetcherManager(
            process, name, config, self.registry, self.streams, self._positioned, self._serve
        )
        self.rebalancer = Rebalancer(
            process,
            self.consumer,
            config,
            rules,
            self.registry,
            self.fetchers,
            self.streams,
            partial(self._commit, "auto"),
        )
        self.methods = {
            "subscribe": self.subscribe,
            "poll": self.poll,
            "commit_sync": self.commit_sync,
            "close": self.close,
        }
        self._commit_lock = Lock(process)  # offsetsChannelLock
        self._auto_commit: Thread | None = None
        self._registration: ConsumerRegistration | None = None
        self._call: int | None = None  # the outstanding poll()
        self._deadline = 0
        self._empty_since: int | None = None  # since when next() has waited for a record
        self._handling = False  # the application handles the record of the last poll()
        self._interrupt: Callable[[int], None] | None = None  # run in place of the next poll()
        self._turn = 0  # counts records, so that each stream has its turn
        self._key = ("legacy-poll", name)

    # Calls.

    def subscribe(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Join the group with a stream for each of (topics,); reply after the first rebalance.

        The session has zookeeper.connection.timeout.ms to begin. The reply is a
        ConsumerRebalanceFailedError when all attempts at the rebalance have failed.
        """
        topics = tuple(sorted(args[0]))
        process, config = self.process, self.config
        for topic in topics:
            self.streams[topic] = Stream(process, config.queued_max_message_chunks)
        subscription = dict.fromkeys(topics, 1)
        self._registration = ConsumerRegistration(1, subscription, STATIC, process.wall_ms(now))
        self.zk.start(now)
        threads = self.zk.threads
        if config.auto_commit_enable:
            self._auto_commit = threads.start(self._commit_periodically(now), now)
        joining = threads.start(self._consume(topics), now, partial(self._reply, call))

        def give_up(at: int) -> None:
            if not self.zk.session_id:
                joining.stop()
                self.zk.close(at, lambda _at: None)
                self._reply(call, None, KafkaTimeoutError("ZK_TIMEOUT", self.name), at)

        timeout_us = config.zookeeper_connection_timeout_ms * 1000
        process.timers.arm((*self._key, "connect"), now + timeout_us, LANE, give_up)

    def poll(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply the next record of any stream, or no record after (timeout_ms,).

        After consumer.timeout.ms without a record, over several calls, the reply is a
        ConsumerTimeoutError.
        """
        assert self._call is None, f"{self.name} is polled twice at a time"
        self._handling = False
        if self._interrupt is not None:
            self._interrupt(now)
            return
        self._call = call
        self._deadline = now + args[0] * 1000
        if self._empty_since is None:
            self._empty_since = now
        if self.config.consumer_timeout_ms >= 0:
            limit = self._empty_since + self.config.consumer_timeout_ms * 1000
            self._deadline = min(self._deadline, limit)
        self._serve(now)
        if self._call is not None:
            self.process.timers.arm(self._key, self._deadline, LANE, self._on_deadline)

    def commit_sync(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Commit (offsets or None for all that the application has got,) and reply."""
        given = args[0] if args else None
        offsets = None
        if given is not None:
            offsets = {TopicPartition(*tp): offset for tp, offset in given.items()}
        steps = self._commit("sync", offsets)
        self.zk.threads.start(steps, now, partial(self._reply, call))

    def close(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Commit if auto-commit is on, end the session, and reply (shutdown)."""
        self.shut(now, lambda: self._reply(call, None, None, now))

    def stop(self, now: int, begin: Callable[[], None], done: Callable[[], None]) -> None:
        """Close as soon as the application has handled the record that it has.

        ``begin()`` is called when the close begins, ``done()`` when it is over.
        """

        def interrupted(at: int) -> None:
            begin()
            self._call = None
            self.process.timers.cancel(self._key)
            self.shut(at, done)

        self._interrupt = interrupted
        if not self._handling:
            interrupted(now)

    def shut(self, now: int, done: Callable[[], None]) -> None:
        """Close, then call ``done()``; a consumer that has not subscribed is closed at once."""
        if self._registration is None:
            done()
            return
        self.rebalancer.shutting_down = True
        self.zk.threads.start(self._shut_down(), now, lambda _r, _e, at: self._closed(at, done))

    def ground_truth(self) -> list[Any]:
        """Return the positions, for the end of the run."""
        topic_ids = self.registry.topic_ids
        return [
            FinalPosition(
                self.config.group_id,
                self.consumer,
                topic_ids.get(tp.topic, ""),
                tp.partition,
                info.consumed_offset,
            )
            for tp, info in self.rebalancer.partitions.items()
            if info.consumed_offset >= 0
        ]

    # Joining and leaving.

    def _consume(self, topics: tuple[str, ...]) -> Steps:
        """Register, watch, and rebalance for the first time (consume, reinitializeConsumer)."""
        while not self.zk.connected:
            yield self.zk.connection
        yield from self._register()
        self.zk.threads.start(self.rebalancer.watch(), self.zk.threads.now)
        triggered = self.rebalancer.triggered
        yield from self.zk.subscribe_children(self.registry.ids_path, triggered)
        for topic in topics:
            yield from self.zk.subscribe_data(topic_path(topic), triggered)
        yield from self.rebalancer.synced_rebalance()

    def _register(self) -> Steps:
        assert self._registration is not None, self.name
        yield from self.registry.register(self.consumer, self._registration)

    def _on_new_session(self) -> Steps:
        """Register again and rebalance: the session has expired (handleNewSession)."""
        self.rebalancer.session_lost()
        yield from self._register()
        yield from self.rebalancer.synced_rebalance()

    def _shut_down(self) -> Steps:
        yield from self.rebalancer.lock.acquire()
        if self._auto_commit is not None:
            self._auto_commit.stop()
        self.rebalancer.stop_reading()
        if self.config.auto_commit_enable:
            yield from self._commit("auto")

    def _closed(self, now: int, done: Callable[[], None]) -> None:
        self.zk.close(now, lambda _at: done())

    # Offsets.

    def _commit_periodically(self, began: int) -> Steps:
        """Commit every auto.commit.interval.ms (KafkaScheduler)."""
        interval_us = self.config.auto_commit_interval_ms * 1000
        due = began + interval_us
        while True:
            yield Sleep(max(0, due - self.zk.threads.now))
            yield from self._commit("auto")
            due += interval_us

    def _commit(self, kind: str, given: dict[TopicPartition, int] | None = None) -> Steps:
        """Write the offsets that differ from those in ZooKeeper (commitOffsets).

        Nothing fences the write of a consumer that does not own the partition any more.
        """
        offsets = given
        if offsets is None:
            partitions = self.rebalancer.partitions
            offsets = {tp: info.consumed_offset for tp, info in partitions.items()}
        yield from self._commit_lock.acquire()
        known = self.rebalancer.checkpointed
        for tp, offset in offsets.items():
            if known.get(tp) != offset:
                yield from self.registry.commit(tp, offset)
                known[tp] = offset
                self._tell_committed(tp, offset, kind)
        self._commit_lock.release(self.zk.threads.now)

    def _tell_committed(self, tp: TopicPartition, offset: int, kind: str) -> None:
        group, topic_id = self.config.group_id, self.registry.topic_ids.get(tp.topic, "")
        self.process.out += [
            OffsetCommitted(group, tp.topic, tp.partition, offset, -1, self.consumer, IN_ZOOKEEPER),
            CommitResult(
                group, self.consumer, topic_id, tp.partition, offset, -1, kind, "NONE", False
            ),
        ]

    # Records.

    def _serve(self, now: int) -> None:
        """End the outstanding poll() if there is a record."""
        while self._call is not None:
            try:
                taken = self._take(now)
            except KafkaError as error:
                self._end(None, error)
                return
            if taken is None:
                return
            chunk, record = taken
            self._tell_polled(chunk, record)
            if record is not None:
                self._empty_since = None
                self._handling = True
                self._end(("records", {chunk.info.tp: (record,)}), None)

    def _take(self, now: int) -> tuple[Chunk, RecordTuple | None] | None:
        """Return what the next stream has; each stream has its turn."""
        streams = list(self.streams.values())
        for place in range(len(streams)):
            taken = streams[(self._turn + place) % len(streams)].take(now)
            if taken is not None:
                self._turn += place + 1
                return taken
        return None

    def _on_deadline(self, now: int) -> None:
        limit_us = self.config.consumer_timeout_ms * 1000
        assert self._empty_since is not None, self.name
        if limit_us >= 0 and now >= self._empty_since + limit_us:
            self._empty_since = None
            self._end(None, ConsumerTimeoutError("CONSUMER_TIMEOUT", self.name))
        else:
            self._end(("records", {}), None)

    def _end(self, result: Any, error: KafkaError | None) -> None:
        call, self._call = self._call, None
        assert call is not None, self.name
        self.process.timers.cancel(self._key)
        self.process.out.append(Reply(call, result, error))

    def _tell_polled(self, chunk: Chunk, record: RecordTuple | None) -> None:
        info, tp = chunk.info, chunk.info.tp
        self.process.out.append(
            Polled(
                self.config.group_id,
                self.consumer,
                self.registry.topic_ids.get(tp.topic, ""),
                tp.partition,
                info.consumed_offset,
                chunk.high_watermark,
                () if record is None else (record[0],),
                () if record is None else (record[1],),
            )
        )

    def _positioned(self, info: PartitionTopicInfo, reason: str) -> None:
        self.rebalancer.positioned(info.tp, info.consumed_offset, reason)

    def _reply(self, call: int, result: Any, error: KafkaError | None, _now: int) -> None:
        self.process.out.append(Reply(call, result, error))
