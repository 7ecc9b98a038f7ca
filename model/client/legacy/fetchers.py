"""Fetching: ConsumerFetcherManager with its leader finder, and a ConsumerFetcherThread a broker.

The leader finder asks any broker for the leaders of the partitions that have none, hands them to
the fetchers of those brokers, and sleeps refresh.leader.backoff.ms before the next look. A fetcher
has one request in flight. A partition with an error goes back to the leader finder; after a request
without an answer all of them do. Each rebalance stops all of these threads with their connections,
and new ones begin.

An old consumer fetches without sessions (KIP-227), leader epochs (KIP-320) or isolation level, from
leaders only. Where a partition has no committed offset, or an offset out of range,
auto.offset.reset decides where to go on; the thread waits for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.legacy.streams import Chunk
from kafkasim.model.client.legacy.threads import LANE, Ask, Condition, Sleep
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.legacy.registry import GroupRegistry
    from kafkasim.model.client.legacy.streams import PartitionTopicInfo, Stream
    from kafkasim.model.client.legacy.threads import Steps, Thread
    from kafkasim.model.config import LegacyConsumerConfig
    from kafkasim.model.effects import Process

MAX_BYTES = 2**31 - 1
"""The limit of a whole response: ConsumerFetcherThread never passes fetch.max.bytes on."""


class FetcherManager:
    """The fetchers of one consumer, between :meth:`start` and :meth:`stop`.

    ``positioned(info, reason)`` is called when a partition's offset was reset, ``fetched(now)``
    when a chunk was queued.
    """

    def __init__(
        self,
        process: Process,
        name: str,
        config: LegacyConsumerConfig,
        registry: GroupRegistry,
        streams: Mapping[str, Stream],
        positioned: Callable[[PartitionTopicInfo, str], None],
        fetched: Callable[[int], None],
    ) -> None:
        self.config = config
        self.process = process
        self.registry = registry
        self.threads = registry.zk.threads
        self.streams = streams
        self.positioned = positioned
        self.fetched = fetched
        self.partitions: dict[TopicPartition, PartitionTopicInfo] = {}
        self._name = name
        self._leaderless: dict[TopicPartition, None] = {}
        self._sought = Condition(process)
        self._finder: Thread | None = None
        self._fetchers: dict[int, Fetcher] = {}
        self._opened = 0  # connections so far

    def start(self, partitions: list[PartitionTopicInfo], now: int) -> None:
        """Fetch these partitions (startConnections)."""
        self.partitions = {info.tp: info for info in partitions}
        self._leaderless = dict.fromkeys(self.partitions)
        self._finder = self.threads.start(self._find_leaders(), now)

    def stop(self) -> None:
        """Stop all threads and close their connections (stopConnections)."""
        if self._finder is not None:
            self._finder.stop()
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers = {}
        self._leaderless = {}
        self.partitions = {}

    def add_partitions_with_error(self, partitions: list[TopicPartition], now: int) -> None:
        """Have the leaders of partitions looked for."""
        self._leaderless.update(dict.fromkeys(partitions))
        self._sought.notify(now)

    def open_channel(self, address: str) -> Channel:
        """Return a new connection to a broker (BlockingChannel); several may be open at a time."""
        timeout_ms = self.config.socket_timeout_ms
        self._opened += 1
        name = f"{self._name} {self._opened}"
        return Channel(
            self.process, address, "fetch", LANE, timeout_ms, name=name, reconnect_backoff_ms=(0, 0)
        )

    # The leader finder.

    def _find_leaders(self) -> Steps:
        """Look for leaders for ever (LeaderFinderThread.doWork)."""
        while True:
            while not self._leaderless:
                yield self._sought
            found = yield from self._leaders()
            for broker in sorted(dict.fromkeys([leader for leader, _ in found.values()])):
                mine = [tp for tp, (leader, _) in found.items() if leader == broker]
                address = next(where for leader, where in found.values() if leader == broker)
                yield from self._add_fetcher(broker, address, mine)
            for broker in [each for each, fetcher in self._fetchers.items() if not fetcher.offsets]:
                self._fetchers.pop(broker).stop()  # shutdownIdleFetcherThreads
            yield Sleep(self.config.refresh_leader_backoff_ms * 1000)

    def _leaders(self) -> Steps:
        """Return the leaders (broker, address) that could be found; those are looked for no more.

        Brokers are asked in random order until one answers (ClientUtils.fetchTopicMetadata).
        """
        brokers = yield from self.registry.brokers()
        order = list(brokers.items())
        self.process.rng.shuffle(order)
        topics = tuple(sorted(dict.fromkeys([tp.topic for tp in self._leaderless])))
        found: dict[TopicPartition, tuple[int, str]] = {}
        for _, address in order:
            channel = self.open_channel(address)
            response = yield Ask(channel, MetadataRequest(topics))
            channel.dispose()
            if not isinstance(response, MetadataResponse):
                continue
            addresses = {each.id: each.address for each in response.brokers}
            for tp, leader in _leaders_of(response):
                if tp in self._leaderless and leader in addresses:
                    found[tp] = (leader, addresses[leader])
                    del self._leaderless[tp]
            break
        return found

    def _add_fetcher(self, broker: int, address: str, mine: list[TopicPartition]) -> Steps:
        """Give partitions to a broker's fetcher (addFetcherForPartitions).

        If one of them has no offset and the broker does not tell one, none is added.
        """
        fetcher = self._fetchers.get(broker)
        if fetcher is None or fetcher.address != address:
            if fetcher is not None:
                fetcher.stop()
            fetcher = self._fetchers[broker] = Fetcher(self, address)
        try:
            for tp in mine:
                if self.partitions[tp].fetched_offset < 0:
                    yield from fetcher.reset_offset(self.partitions[tp])
        except KafkaError:
            self._leaderless.update(dict.fromkeys(mine))
            return
        fetcher.add(mine)


class Fetcher:
    """Fetches the partitions that one broker leads."""

    def __init__(self, manager: FetcherManager, address: str) -> None:
        self.address = address
        self.offsets: dict[TopicPartition, None] = {}  # the partitions, in the order of fetching
        self._manager = manager
        self._channel = manager.open_channel(address)
        self._added = Condition(manager.process)
        now = manager.threads.now
        self._thread = manager.threads.start(self._fetch_for_ever(), now)

    def stop(self) -> None:
        """End the thread and its connection; an answer under way is dropped."""
        self._thread.stop()
        self._channel.dispose()

    def add(self, partitions: list[TopicPartition]) -> None:
        """Fetch these partitions, too."""
        self.offsets.update(dict.fromkeys(partitions))
        self._added.notify(self._manager.threads.now)

    def _fetch_for_ever(self) -> Steps:
        """Fetch again and again (AbstractFetcherThread.doWork)."""
        while True:
            while not self.offsets:
                yield self._added
            asked = tuple([self._part(tp) for tp in self.offsets])
            response = yield from self._ask(self._request(asked))
            if isinstance(response, FetchResponse) and not response.error:
                failed = yield from self._take(asked, response)
            else:
                yield Sleep(self._manager.config.refresh_leader_backoff_ms * 1000)
                failed = list(self.offsets)
            for tp in failed:
                self.offsets.pop(tp, None)
            if failed:
                self._manager.add_partitions_with_error(failed, self._manager.threads.now)

    def _ask(self, request: Any) -> Steps:
        """Return the response, or a Failed of the second attempt (SimpleConsumer.sendRequest)."""
        response = yield Ask(self._channel, request)
        if isinstance(response, Failed):
            response = yield Ask(self._channel, request)
        return response

    def _request(self, asked: tuple[FetchPartition, ...]) -> FetchRequest:
        config = self._manager.config
        wait, least, client = config.fetch_wait_max_ms, config.fetch_min_bytes, config.client_id
        return FetchRequest(
            -1, -1, wait, least, MAX_BYTES, 0, asked, rack_id=None, client_id=client
        )

    def _part(self, tp: TopicPartition) -> FetchPartition:
        topic_id = self._manager.registry.topic_ids.get(tp.topic, "")
        offset = self._manager.partitions[tp].fetched_offset
        most = self._manager.config.fetch_message_max_bytes
        return FetchPartition(tp, topic_id, offset, -1, -1, -1, most)

    def _take(self, asked: tuple[FetchPartition, ...], response: FetchResponse) -> Steps:
        """Queue what was fetched; return the partitions with errors (processFetchRequest)."""
        failed: list[TopicPartition] = []
        for part in response.partitions:
            info = self._manager.partitions.get(part.tp)
            if info is None or part.tp not in self.offsets:
                continue
            if part.error is NONE:
                yield from self._enqueue(info, part)
            elif part.error is Errors.OFFSET_OUT_OF_RANGE:
                try:
                    yield from self.reset_offset(info)
                except KafkaError:
                    failed.append(part.tp)
            else:
                failed.append(part.tp)
        return failed

    def _enqueue(self, info: PartitionTopicInfo, part: FetchPartitionResponse) -> Steps:
        """Queue a chunk (PartitionTopicInfo.enqueue); the partition is fetched last next time."""
        if not part.batches:
            return
        chunk = Chunk(info, part)
        yield from self._manager.streams[info.tp.topic].put(chunk)
        info.fetched_offset = chunk.end
        self.offsets.pop(info.tp, None)
        self.offsets[info.tp] = None
        self._manager.fetched(self._manager.threads.now)

    def reset_offset(self, info: PartitionTopicInfo) -> Steps:
        """Go on where auto.offset.reset says (handleOffsetOutOfRange).

        Raises:
            KafkaError: the broker did not tell the offset.
        """
        smallest = self._manager.config.auto_offset_reset == "smallest"
        timestamp = EARLIEST_TIMESTAMP if smallest else LATEST_TIMESTAMP
        asked = ListOffsetsPartition(info.tp, -1, timestamp)
        response = yield from self._ask(ListOffsetsRequest(-1, 0, (asked,)))
        if not isinstance(response, ListOffsetsResponse):
            raise KafkaError("NETWORK_EXCEPTION", f"{info.tp}")
        (part,) = response.partitions
        if part.error or part.offset < 0:
            raise KafkaError(part.error.name, f"{info.tp}")
        info.reset(part.offset)
        self._manager.positioned(info, "earliest" if smallest else "latest")


def _leaders_of(response: MetadataResponse) -> list[tuple[TopicPartition, int]]:
    """Return the partitions that have a leader, with the leader's id."""
    return [
        (TopicPartition(topic.topic, partition.partition), partition.leader)
        for topic in response.topics
        for partition in topic.partitions
        if partition.leader >= 0
    ]
