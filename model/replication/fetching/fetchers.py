"""ReplicaFetchers: the fetcher threads of one broker (ReplicaFetcherManager).

A partition belongs to thread ``partition mod num.replica.fetchers`` of its leader. A thread ends as
soon as it has nothing to fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.replication.fetching.replica_fetcher import ReplicaFetcher

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import BrokerImage
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.dynamic_config import DynamicBrokerConfig
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.replication.rules import ReplicationRules


class ReplicaFetchers:
    """The threads, by leader and number."""

    def __init__(
        self,
        process: BrokerProcess,
        settings: DynamicBrokerConfig,
        rules: ReplicationRules,
        brokers: dict[int, BrokerImage],
    ) -> None:
        self._process = process
        self._settings = settings
        self._rules = rules
        self._brokers = brokers
        self.threads: dict[tuple[int, int], ReplicaFetcher] = {}

    def add(self, partition: Partition, now: int) -> None:
        """Fetch a partition from its leader."""
        leader = partition.leader_id
        key = (leader, partition.tp.partition % self._settings.current.num_replica_fetchers)
        thread = self.threads.get(key)
        if thread is None:
            broker = self._brokers.get(leader)
            address = f"broker-{leader}" if broker is None else broker.address
            thread = self.threads[key] = ReplicaFetcher(
                self._process, self._settings, self._rules, *key, address
            )
        thread.add(partition, now)

    def remove(self, tp: TopicPartition) -> None:
        """Fetch a partition no longer."""
        for thread in self.threads.values():
            thread.remove(tp)

    def stop_idle(self, now: int) -> None:
        """End the threads that have nothing to fetch (shutdownIdleFetcherThreads)."""
        for key, thread in list(self.threads.items()):
            if thread.states.is_empty():
                del self.threads[key]
                thread.stop(now)

    def stop(self, now: int) -> None:
        """End all threads (shutdown)."""
        for thread in self.threads.values():
            thread.stop(now)
        self.threads.clear()
