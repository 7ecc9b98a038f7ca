"""The requests of a share consumer to the leaders (ShareConsumeRequestManager, KIP-932).

A node has one request of the consumer in flight at most. Acknowledgements go with the next fetch
if poll() has no records yet, else by ShareAcknowledge. While one of those is outstanding, nothing
is fetched from any node.

Left out: metrics, and topics whose name is forgotten while a request is in flight.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasim.model.client.consumer.share.acknowledge_request import AcknowledgeState, Kind
from kafkasim.model.client.consumer.share.acknowledgements import (
    Acknowledgements,
    ByPartition,
    TopicIdPartition,
    merge,
)
from kafkasim.model.client.consumer.share.fetched import ShareCompletedFetch
from kafkasim.model.client.consumer.share.session import ShareSessionHandler
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages.share import ShareAcknowledgeResponse, ShareFetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.channel import Channel
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.config import ConsumerConfig

NONE = Errors.NONE
NAMES_LEADER = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH)

Told: TypeAlias = "Callable[[TopicIdPartition, Acknowledgements, Errors, int], None]"
"""Hears what became of the acknowledgements of a partition."""


class Node:
    """What the consumer has to do with one broker."""

    def __init__(self, session: ShareSessionHandler) -> None:
        self.session = session
        self.pending = False  # a request is in flight
        self.with_fetch: ByPartition = {}  # goes with the next fetch
        self.fetching: ByPartition = {}  # went with the fetch in flight
        self.asynchronous: AcknowledgeState | None = None
        self.synchronous: deque[AcknowledgeState] = deque()
        self.closing: AcknowledgeState | None = None

    def settle(self) -> bool:
        """Forget acknowledgements that are over; return whether others are not."""
        if self.asynchronous is not None and not self.asynchronous.in_progress:
            self.asynchronous = None
        if not any(each.in_progress for each in self.synchronous):
            self.synchronous.clear()
        if self.closing is not None and not self.closing.in_progress:
            self.closing = None
        return bool(self.asynchronous or self.synchronous or self.closing)


class ShareConsumeRequestManager:
    """Fetches and acknowledges; ``told`` hears what became of every acknowledgement."""

    def __init__(
        self,
        config: ConsumerConfig,
        member_id: str,
        metadata: Metadata,
        subscription: SubscriptionState,
        poll: Poll,
        told: Told,
    ) -> None:
        self.completed: deque[ShareCompletedFetch] = deque()  # fetched, not taken by poll() yet
        self._config = config
        self._member_id = member_id
        self._metadata = metadata
        self._subscription = subscription
        self._poll = poll
        self._process = poll.process
        self._told = told
        self._nodes: dict[int, Node] = {}
        self._fetches_more = False
        self._closed: Callable[[int], None] | None = None
        self._key = ("share-requests", poll.name)

    # ---------------------------------------------------------------------------- the consumer

    def fetch(self, acknowledgements: dict[int, ByPartition], now: int) -> None:
        """Fetch, and acknowledge with the fetches; by node."""
        self._fetches_more = True
        for node_id, found in acknowledgements.items():
            merge(self._node(node_id).with_fetch, found)
        self.advance(now)

    def commit_async(self, acknowledgements: dict[int, ByPartition], now: int) -> None:
        """Acknowledge without waiting."""
        deadline = now + self._config.default_api_timeout_ms * 1000
        for node_id, found in acknowledgements.items():
            known = self._still_led(node_id, found, now)
            node = self._node(node_id)
            if not known:
                continue
            if node.asynchronous is None:
                node.asynchronous = AcknowledgeState(Kind.ASYNC, known, deadline, self._told)
            else:
                merge(node.asynchronous.to_send, known)
        self.advance(now)

    def commit_sync(
        self,
        acknowledgements: dict[int, ByPartition],
        deadline: int,
        done: Callable[[dict[TopicIdPartition, Errors], int], None],
        now: int,
    ) -> None:
        """Acknowledge; ``done`` is called with the result of each partition."""
        results: dict[TopicIdPartition, Errors] = {}
        left = 0

        def told(key: TopicIdPartition, acks: Acknowledgements, error: Errors, at: int) -> None:
            nonlocal left
            self._told(key, acks, error, at)
            results[key] = error
            left -= 1
            if left == 0:
                done(results, at)

        for node_id, found in acknowledgements.items():
            known = self._still_led(node_id, found, now)
            if known:
                left += len(known)
                state = AcknowledgeState(Kind.SYNC, known, deadline, told)
                self._node(node_id).synchronous.append(state)
        if left == 0:
            done(results, now)
        self.advance(now)

    def close(
        self, acknowledgements: dict[int, ByPartition], deadline: int, done: Any, now: int
    ) -> None:
        """Acknowledge what is left and close all sessions, then call ``done(now)``."""
        self._closed = done
        self._fetches_more = False
        for node_id, found in acknowledgements.items():
            merge(self._node(node_id).with_fetch, found)
        for node_id, node in self._nodes.items():
            left = self._still_led(node_id, node.with_fetch, now)
            node.with_fetch = {}
            node.closing = AcknowledgeState(Kind.CLOSE, left, deadline, self._told)
        self._process.timers.arm(("share-close", self._poll.name), deadline, "main", self._give_up)
        self.advance(now)

    def _give_up(self, now: int) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed(now)

    def _still_led(self, node_id: int, found: ByPartition, now: int) -> ByPartition:
        """Return what a node still leads, as far as is known; the rest fails at once."""
        known: ByPartition = {}
        for key, acknowledgements in found.items():
            leader = self._metadata.current_leader(key[1]).leader
            if leader not in (-1, node_id):
                self._told(key, acknowledgements, Errors.NOT_LEADER_OR_FOLLOWER, now)
                continue
            if leader == -1:
                self._metadata.request_update(now)
            known[key] = acknowledgements
        return known

    # -------------------------------------------------------------------------------- requests

    def advance(self, now: int) -> None:
        """Send what can be sent (ShareConsumeRequestManager.poll)."""
        sent = False
        for node_id, node in self._nodes.items():
            if not node.pending:
                sent = self._acknowledge(node_id, node, now) or sent
        busy = [node.settle() for node in self._nodes.values()]
        if sent or any(busy):
            return
        if self._closed is not None:
            self._process.timers.cancel(("share-close", self._poll.name))
            self._give_up(now)
        elif self._fetches_more:
            self._fetch(now)

    def _acknowledge(self, node_id: int, node: Node, now: int) -> bool:
        """Send a ShareAcknowledge to a node if one is due: async, then sync, then close."""
        states = [node.asynchronous, *node.synchronous, node.closing]
        for state in states:
            if state is None or not state.in_progress or state.in_flight:
                continue
            if state.attempts and now >= state.deadline:
                state.fail_waiting(Errors.REQUEST_TIMED_OUT, now)
                state.closed = True
                continue
            if now < state.not_before:
                self._wake_at(state.not_before)
                return False
            if node.session.is_new:
                state.fail_waiting(Errors.SHARE_SESSION_NOT_FOUND, now)
                state.closed = True
                continue
            channel = self._channel(node_id, now)
            if channel is None:
                return False
            request = node.session.acknowledge(state.take(), state.kind is Kind.CLOSE)
            node.pending = True
            state.attempts += 1
            channel.send(request, now, partial(self._on_acknowledged, node, state))
            return True
        return False

    def _fetch(self, now: int) -> None:
        wanted: dict[int, list[TopicIdPartition]] = {}
        for tp in self._subscription.assignment:
            leader = self._metadata.current_leader(tp).leader
            topic_id = self._metadata.topic_ids.get(tp.topic)
            if leader == -1 or topic_id is None:
                self._metadata.request_update(now)
                continue
            wanted.setdefault(leader, []).append((topic_id, tp))
            self._node(leader)
        for node_id, node in list(self._nodes.items()):
            partitions = wanted.get(node_id, [])
            if node.pending or not (partitions or node.with_fetch):
                continue
            channel = self._channel(node_id, now)
            if channel is None:
                continue
            acknowledgements, node.with_fetch = node.with_fetch, {}
            if node.session.is_new:
                for key, found in acknowledgements.items():
                    self._told(key, found, Errors.INVALID_SHARE_SESSION_EPOCH, now)
                acknowledgements = {}
                if not partitions:
                    continue
            known = self._still_led(node_id, acknowledgements, now)
            node.fetching.update(known)
            node.pending = True
            request = node.session.fetch(partitions, known)
            channel.send(request, now, partial(self._on_fetched, node_id, node))

    def _node(self, node_id: int) -> Node:
        node = self._nodes.get(node_id)
        if node is None:
            session = ShareSessionHandler(self._config, self._member_id)
            node = self._nodes[node_id] = Node(session)
        return node

    def _channel(self, node_id: int, now: int) -> Channel | None:
        """Return the channel to a node, None while it is unknown or in its backoff."""
        connections = self._metadata.connections
        address = self._metadata.brokers.get(node_id) or connections.known_address(node_id)
        if address is None:
            return None
        channel = connections.channel(node_id, address)
        if channel.connection is None and now < channel.not_before:
            self._wake_at(channel.not_before)
            return None
        return channel

    def _wake_at(self, deadline: int) -> None:
        armed = self._process.timers.deadline(self._key)
        if armed is None or deadline < armed:
            self._process.timers.arm(self._key, deadline, "main", self.advance)

    # ------------------------------------------------------------------------------- responses

    def _on_fetched(self, node_id: int, node: Node, response: Any, now: int) -> None:
        node.pending = False
        if not isinstance(response, ShareFetchResponse):
            node.session.on_failure()
            self._fail_fetching(node, Errors.NETWORK_EXCEPTION, now)
        elif node.session.on_response(response.error):
            self._take(node_id, node, response, now)
        else:
            if response.error is Errors.UNKNOWN_TOPIC_ID:
                self._metadata.request_update(now)
            self._fail_fetching(node, response.error, now)
        self.advance(now)
        self._poll.wake(now)

    def _fail_fetching(self, node: Node, error: Errors, now: int) -> None:
        """Tell the error of a fetch as the result of the acknowledgements that went with it.

        Kafka 4.1.0 keeps those of a refused fetch, and tells them the result of the next one
        (handleShareFetchSuccess; mended in 4.2).
        """
        sent, node.fetching = node.fetching, {}
        for key, acknowledgements in sent.items():
            self._told(key, acknowledgements, error, now)

    def _take(self, node_id: int, node: Node, response: ShareFetchResponse, now: int) -> None:
        for answer in response.partitions:
            key = (answer.topic_id, answer.tp)
            acknowledgements = node.fetching.pop(key, None)
            if acknowledgements is not None:
                self._told(key, acknowledgements, answer.acknowledge_error, now)
            if answer.error in NAMES_LEADER and answer.current_leader is not None:
                self._metadata.update_leader(answer.tp, answer.current_leader, now)
            self.completed.append(ShareCompletedFetch(node_id, answer))
            if answer.acquired:
                self._fetches_more = False
        left, node.fetching = node.fetching, {}
        for key, acknowledgements in left.items():
            self._told(key, acknowledgements, Errors.INVALID_RECORD_STATE, now)

    def _on_acknowledged(
        self, node: Node, state: AcknowledgeState, response: Any, now: int
    ) -> None:
        node.pending = False
        if not isinstance(response, ShareAcknowledgeResponse):
            node.session.on_failure()
            state.complete_all(Errors.NETWORK_EXCEPTION, now)
            state.closed = True
        elif state.kind is Kind.CLOSE:
            for answer in response.partitions:
                state.complete((answer.topic_id, answer.tp), answer.error, now)
            state.complete_all(Errors.INVALID_RECORD_STATE, now)
            state.closed = True
        elif not node.session.on_response(response.error):
            self._retry(state, now)
            if response.error in RETRIABLE:
                state.incomplete.update(state.in_flight)
                state.in_flight = {}
            else:
                state.complete_all(response.error, now)
        else:
            self._take_results(state, response, now)
        self.advance(now)
        self._poll.wake(now)

    def _take_results(
        self, state: AcknowledgeState, response: ShareAcknowledgeResponse, now: int
    ) -> None:
        retried = False
        for answer in response.partitions:
            key, error = (answer.topic_id, answer.tp), answer.error
            if error in NAMES_LEADER or error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                if answer.current_leader is not None:
                    self._metadata.update_leader(answer.tp, answer.current_leader, now)
            elif error in RETRIABLE and key in state.in_flight:
                state.incomplete[key] = state.in_flight.pop(key)
                retried = True
                continue
            state.complete(key, error, now)
        state.complete_all(Errors.INVALID_RECORD_STATE, now)
        if retried:
            self._retry(state, now)
        else:
            state.attempts = state.not_before = 0

    def _retry(self, state: AcknowledgeState, now: int) -> None:
        backoff = self._metadata.connections.backoff
        state.not_before = now + backoff.after_us(state.attempts)
