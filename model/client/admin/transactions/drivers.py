"""Requests to whoever is responsible for a key: a coordinator, a leader, or every broker.

Models AdminApiDriver with its lookup strategies (CoordinatorStrategy, PartitionLeaderStrategy,
AllBrokersStrategy). A driver works in rounds. In each it looks up who is responsible for the keys
that have no result, sends one request for each of them, and begins the next round after the retry
backoff while one is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.admin.calls import AdminCall
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import FindCoordinatorRequest, MetadataRequest
from kafkasim.model.records import TopicPartition

TRANSACTION = 1  # the key type of FindCoordinator
Results = dict[Any, Any]
Build = Callable[[Any], Any]  # key -> request
Judge = Callable[[Any], Any]  # response -> result, None to ask again
Done = Callable[[Results, int], None]  # (results by key, now)


class Driver:
    """The rounds of one call; a subclass looks keys up."""

    def __init__(
        self,
        connections: Connections,
        call: AdminCall,
        keys: tuple[Any, ...],
        build: Build,
        judge: Judge,
        done: Done,
    ) -> None:
        self.connections = connections
        self.keys = keys
        self.results: Results = {}
        self._call = call
        self._build = build
        self._judge = judge
        self._done = done
        self._outstanding = 0

    def attempt(self, now: int) -> None:
        """Begin a round, or try later if no node can be connected to."""
        channel = self._call.least_loaded(self.attempt, now)
        if channel is not None:
            self.look_up(channel, now)

    def look_up(self, channel: Any, now: int) -> None:
        """Ask a node who is responsible for the keys without a result."""
        raise NotImplementedError

    def missing(self) -> list[Any]:
        """Return the keys without a result."""
        return [key for key in self.keys if key not in self.results]

    def ask(self, channel: Any, request: Any, then: Callable[[Any, int], None], now: int) -> None:
        """Send a request of this round; the round ends when each has called :meth:`settle`."""
        self._outstanding += 1
        channel.send(request, now, then)

    def send(self, key: Any, node_id: int, address: str, now: int) -> None:
        """Send the request of a key to who is responsible for it."""
        channel = self.connections.channel(node_id, address)
        self.ask(channel, self._build(key), partial(self._on_answer, key), now)

    def _on_answer(self, key: Any, response: Any, now: int) -> None:
        result = None if isinstance(response, Failed) else self._judge(response)
        if result is not None:
            self.results[key] = result
        self.settle(now)

    def settle(self, now: int) -> None:
        """End a request of this round, and the round with the last one."""
        self._outstanding -= 1
        if self._outstanding:
            return
        if self.missing():
            self._call.retry(self.attempt, now)
        else:
            self._done({key: self.results[key] for key in self.keys}, now)


class ToCoordinators(Driver):
    """Each key is a transactional id. An error of the look-up is the result of its key."""

    def look_up(self, channel: Any, now: int) -> None:
        """Find the coordinator of each id."""
        for key in self.missing():
            request = FindCoordinatorRequest(key, TRANSACTION)
            self.ask(channel, request, partial(self._on_found, key), now)

    def _on_found(self, key: str, response: Any, now: int) -> None:
        if not isinstance(response, Failed):
            if response.error is Errors.NONE:
                self.send(key, response.node_id, response.address, now)
            elif response.error not in RETRIABLE:
                self.results[key] = response.error
        self.settle(now)


class ToLeaders(Driver):
    """Each key is a partition."""

    def look_up(self, channel: Any, now: int) -> None:
        """Find the leader of each partition."""
        topics = tuple(dict.fromkeys([tp.topic for tp in self.missing()]))
        request = MetadataRequest(topics, allow_auto_topic_creation=False)
        self.ask(channel, request, self._on_metadata, now)

    def _on_metadata(self, response: Any, now: int) -> None:
        if not isinstance(response, Failed):
            addresses = {broker.id: broker.address for broker in response.brokers}
            missing = self.missing()
            for topic in response.topics:
                for entry in topic.partitions:
                    tp = TopicPartition(topic.topic, entry.partition)
                    if tp in missing and entry.leader in addresses:
                        self.send(tp, entry.leader, addresses[entry.leader], now)
        self.settle(now)


class ToAllBrokers(Driver):
    """The keys are the brokers that the first look-up finds."""

    def look_up(self, channel: Any, now: int) -> None:
        """Find the brokers."""
        self.ask(channel, MetadataRequest(()), self._on_metadata, now)

    def _on_metadata(self, response: Any, now: int) -> None:
        if not isinstance(response, Failed):
            addresses = {broker.id: broker.address for broker in response.brokers}
            self.keys = self.keys or tuple(addresses)
            for node_id in self.missing():
                if node_id in addresses:
                    self.send(node_id, node_id, addresses[node_id], now)
        self.settle(now)

    def missing(self) -> list[Any]:
        """Return the brokers without a result; before the first look-up that is one unknown."""
        return super().missing() if self.keys else [None]
