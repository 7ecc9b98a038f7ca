"""The producer's I/O half: Kafka's Sender.

Kafka's Sender is a thread that loops (runOnce). This one runs when there is something to do: a
batch became ready, a response or new metadata arrived, a connection opened, or its one timer fired,
which stands for linger.ms and for the retry backoff. For each node it keeps the queues that hold
batches in the order in which they are drained, so that a drain looks at nothing else.

A batch ends in one of three ways: acknowledged (fact Acked), given up after an error, or expired
after delivery.timeout.ms (both fact SendFailed).

Not modelled: partitioner.availability.timeout.ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.client.exceptions import KafkaError, KafkaTimeoutError
from kafkasim.model.effects import Reply
from kafkasim.model.errors import INVALID_METADATA, RETRIABLE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkasim.model.records import NO_SEQUENCE, NO_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.producer.accumulator import RecordAccumulator
    from kafkasim.model.client.producer.batches import PartitionQueue, ProducerBatch
    from kafkasim.model.client.producer.sequences import Sequencing
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ProducerConfig

NEVER = 1 << 62


class Node:
    """A broker: its connection, and the queues with batches of the partitions that it leads."""

    __slots__ = ("channel", "node_id", "pending")

    def __init__(self, node_id: int, channel: Channel) -> None:
        self.node_id = node_id
        self.channel = channel
        self.pending: dict[TopicPartition, PartitionQueue] = {}  # in the order of draining


class InFlightProduce:
    """A ProduceRequest in flight."""

    __slots__ = ("batches", "node", "sender")

    def __init__(self, sender: Sender, node: Node, batches: list[ProducerBatch]) -> None:
        self.sender = sender
        self.node = node
        self.batches = batches

    def done(self, response: Any, now: int) -> None:
        """Hand each batch its part of the response, or the reason why there is none."""
        sender = self.sender
        if type(response) is ProduceResponse:
            batches, partitions = self.batches, response.partitions
            if response.throttle_time_ms:
                self.node.channel.throttle(response.throttle_time_ms, now)
            if len(batches) == 1 and len(partitions) == 1:
                sender.on_response(batches[0], partitions[0], now)
            else:
                by_partition = {batch.queue.tp: batch for batch in batches}
                for partition in partitions:
                    sender.on_response(by_partition[partition.tp], partition, now)
        else:
            assert isinstance(response, Failed), response
            for batch in self.batches:
                sender.on_no_response(batch, response, now)
        sender.after_response(self.node, now)


class Sender:
    """Drains batches to the leaders of their partitions and handles the responses."""

    def __init__(
        self,
        config: ProducerConfig,
        rules: ClientRules,
        metadata: Metadata,
        accumulator: RecordAccumulator,
    ) -> None:
        connections = metadata.connections
        connections.connected.append(self._on_connected)
        connections.disconnected.append(self._on_disconnected)
        self._config = config
        self._rules = rules
        self._metadata = metadata
        self._accumulator = accumulator
        self._connections = connections
        self._process = connections.process
        self._acks = config.acks_number
        self._delivery_timeout_us = config.delivery_timeout_ms * 1000
        self._max_in_flight = config.max_in_flight_requests_per_connection
        self._guarantee_order = self._max_in_flight == 1
        self._knows_abortable = rules.knows_abortable()
        self._nodes: dict[int, Node] = {}
        self._leaders: dict[PartitionQueue, Node] = {}  # where each queue is drained to
        self._transactions: Sequencing | None = None  # None: no idempotence
        self._may_send: Callable[[ProducerBatch, int], bool] | None = None
        self._wake = NEVER
        self._key = ("sender", connections.name)
        self._expiry_armed = False
        self._expiry_key = ("delivery", connections.name)

    def use(self, transactions: Sequencing) -> None:
        """Number the batches, and send what ``transactions`` lets go."""
        self._transactions = transactions
        self._may_send = transactions.may_send
        transactions.unblocked.append(self.drain_all)

    # Draining.

    def queue_ready(self, queue: PartitionQueue, new_batch: bool, now: int) -> None:
        """Drain a queue that has a new batch (``new_batch``), or whose last batch became full."""
        if new_batch and not self._expiry_armed:
            self._arm_expiry(now)
        node = self._leaders.get(queue)
        if node is None:
            node = self._find_leader(queue)
            if node is None:
                self._metadata.request_update(now)
                return
        node.pending[queue.tp] = queue
        self._drain(node, now)

    def drain_all(self, now: int) -> None:
        """Send to every node what may be sent."""
        for node in list(self._nodes.values()):
            if node.pending:
                self._drain(node, now)

    def run(self, now: int) -> None:
        """Resolve sequences and send transactional requests, then batches (Sender.runOnce)."""
        if self._transactions is not None and self._transactions.work_pending:
            self._transactions.resolve_sequences(now)
        self.drain_all(now)

    def after_response(self, node: Node, now: int) -> None:
        """Send what the response made room for."""
        if self._transactions is not None and self._transactions.work_pending:
            self.run(now)
        elif node.pending:
            self._drain(node, now)

    def _drain(self, node: Node, now: int) -> None:
        """Send requests while the node has ready batches and room for requests in flight."""
        pending, channel = node.pending, node.channel
        while pending:
            if not channel.open:
                if not channel.connect(now):
                    self._arm(channel.not_before)
                return
            if len(channel.in_flight) >= self._max_in_flight:
                return
            queues, wake = self._accumulator.ready(pending, self._may_send, now)
            if channel.throttled_until > now:
                queues, wake = [], channel.throttled_until
            if not queues:
                self._arm(wake)
                return
            self._send(node, queues, now)

    def _send(self, node: Node, queues: list[PartitionQueue], now: int) -> None:
        transactions = self._transactions
        transactional_id = None if transactions is None else transactions.transactional_id
        leaders = self._metadata.leaders
        batches: list[ProducerBatch] = []
        parts: list[ProducePartition] = []
        for queue in queues:
            tp = queue.tp
            batch = queue.batches.popleft()
            del node.pending[tp]
            if queue.batches:
                node.pending[tp] = queue  # drained: to the end
            if self._guarantee_order:
                queue.muted = True
            if transactions is not None and batch.base_sequence == NO_SEQUENCE:
                transactions.assign_sequence(batch)
            batch.sequence_reset = False
            batch.attempts += 1
            batch.leader_epoch = leaders[tp].epoch
            batch.topic_id = self._metadata.last_topic_ids.get(tp.topic, "")
            batches.append(batch)
            wire = batch.wire or batch.build(transactional_id is not None)
            parts.append(ProducePartition(tp, wire))
        timeout_ms, client = self._config.request_timeout_ms, self._config.client_id
        version = 0 if transactions is None else transactions.transaction_version
        abortable = self._knows_abortable
        request = ProduceRequest(
            self._acks, timeout_ms, tuple(parts), transactional_id, version, abortable, client
        )
        if self._acks:
            node.channel.send(request, now, InFlightProduce(self, node, batches).done)
            return
        node.channel.send_unanswered(request)
        for batch in batches:
            batch.queue.muted = False
            self._complete(batch, -1, NO_TIMESTAMP, now)

    def _arm(self, deadline: int) -> None:
        if deadline < self._wake:
            self._wake = deadline
            self._process.timers.arm(self._key, deadline, "main", self._on_wake)

    def _on_wake(self, now: int) -> None:
        self._wake = NEVER
        self.drain_all(now)

    # Responses.

    def on_response(
        self, batch: ProducerBatch, response: ProducePartitionResponse, now: int
    ) -> None:
        """Complete, retry, split or give up one batch (Sender.completeBatch)."""
        error = response.error
        queue = batch.queue
        if not error or error is Errors.DUPLICATE_SEQUENCE_NUMBER:
            batch.topic_id = response.topic_id or batch.topic_id  # Produce names the topic
            base_offset = -1 if error else response.base_offset
            self._complete(batch, base_offset, response.log_append_time_ms, now)
            queue.muted = False
            return
        batch.last_error = error.name
        if not self._rules.known_not_appended(error, self._acks):
            batch.indeterminate = True
        if batch.done:  # expired while this response was under way
            pass
        elif error is Errors.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            self._split(batch)
        elif self._can_retry(batch, response, now):
            self._reenqueue(batch, now)
        else:
            self._fail(batch, error, batch.attempts <= self._config.retries, now)
        queue.muted = False  # only now: a retry goes before the batches behind it
        self._metadata.update_leader(queue.tp, response.current_leader, now)
        if error in INVALID_METADATA:
            self._metadata.request_update(now)

    def on_no_response(self, batch: ProducerBatch, failed: Failed, now: int) -> None:
        """Retry or give up a batch whose connection broke or whose request timed out.

        The broker may have appended it, unless the request was never sent.
        """
        error = Errors.NETWORK_EXCEPTION
        if failed.reason == "timeout":
            error = Errors.REQUEST_TIMED_OUT
        if failed.reason not in ("refused", "backoff"):
            batch.indeterminate = True
        batch.queue.muted = False
        batch.last_error = error.name
        if batch.done:
            return
        response = ProducePartitionResponse(batch.queue.tp, error, -1, -1, -1)
        if self._can_retry(batch, response, now):
            self._reenqueue(batch, now)
        else:
            self._fail(batch, error, batch.attempts <= self._config.retries, now)

    def _complete(
        self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, now: int
    ) -> None:
        """Acknowledge a batch to the application.

        ``base_offset`` is −1 if unknown, ``log_append_time_ms`` if the records keep their own.
        """
        if self._transactions is not None:
            self._transactions.on_completed(batch, base_offset)
        if batch.done:
            return
        partition = batch.queue.tp.partition
        out = self._process.out
        out.append(
            Acked(
                batch.topic_id,
                partition,
                base_offset,
                batch.record_ids,
                self._acks,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                now - batch.created_us,
                batch.attempts,
            )
        )
        for call, index in batch.ack_calls or ():
            offset = base_offset + index if base_offset >= 0 else -1
            by_broker = log_append_time_ms != NO_TIMESTAMP
            time_ms = log_append_time_ms if by_broker else batch.records[index].timestamp_ms
            out.append(Reply(-call, (partition, offset, time_ms, by_broker), None))
        self._accumulator.release(batch, now)

    def _fail(self, batch: ProducerBatch, error: Errors, adjust: bool, now: int) -> None:
        if self._transactions is not None:
            self._transactions.on_failed(batch, error, adjust)
        self._give_up(batch, error.name, now)

    def _give_up(self, batch: ProducerBatch, error: str, now: int) -> None:
        """Tell the application that a batch has failed for good."""
        tp, out = batch.queue.tp, self._process.out
        out.append(
            SendFailed(
                self._metadata.last_topic_ids.get(tp.topic, ""),
                tp.partition,
                batch.record_ids,
                error,
                batch.indeterminate,
                now - batch.created_us,
                batch.attempts,
                batch.last_error if batch.last_error != error else "",
            )
        )
        for call, _ in batch.ack_calls or ():
            kind = KafkaTimeoutError if error == "TIMED_OUT" else KafkaError
            out.append(Reply(-call, None, kind(error, str(tp))))
        self._accumulator.release(batch, now)

    # Expiry.

    def _arm_expiry(self, created_us: int) -> None:
        self._expiry_armed = True
        deadline = created_us + self._delivery_timeout_us
        self._process.timers.arm(self._expiry_key, deadline, "main", self._on_expiry)

    def _on_expiry(self, now: int) -> None:
        self._expiry_armed = False
        limit = now - self._delivery_timeout_us
        for batch in list(self._accumulator.incomplete.values()):
            if batch.created_us > limit:
                self._arm_expiry(batch.created_us)
                break
            if not batch.done:
                self._expire(batch, now)
        self.run(now)

    def _expire(self, batch: ProducerBatch, now: int) -> None:
        """Give up a batch after delivery.timeout.ms, queued or in flight."""
        queue = batch.queue
        in_retry = batch.attempts > 1
        if batch in queue.batches:
            in_retry = batch.attempts > 0
            self._take_out(batch)
        elif batch.attempts:
            batch.indeterminate = True  # in flight
        if self._transactions is not None:
            self._transactions.on_expired(batch, in_retry)
        self._give_up(batch, "TIMED_OUT", now)

    def _take_out(self, batch: ProducerBatch) -> None:
        """Take a batch out of its queue."""
        queue = batch.queue
        queue.batches.remove(batch)
        node = self._leaders.get(queue)
        if not queue.batches and node is not None:
            node.pending.pop(queue.tp, None)

    def abort(self, error: str, undrained: bool, now: int) -> None:
        """Give up all batches, or with ``undrained`` those that were never sent."""
        for batch in list(self._accumulator.incomplete.values()):
            if batch.base_sequence == NO_SEQUENCE or not undrained:
                if batch in batch.queue.batches:
                    self._take_out(batch)
                elif batch.attempts:
                    batch.indeterminate = True  # in flight
                self._give_up(batch, error, now)

    # Retries.

    def _can_retry(
        self, batch: ProducerBatch, response: ProducePartitionResponse, now: int
    ) -> bool:
        """Return whether a batch may be sent again (Sender.canRetry)."""
        if now - batch.created_us >= self._delivery_timeout_us:
            return False
        if batch.attempts > self._config.retries:
            return False
        if self._transactions is None:
            return response.error in RETRIABLE
        return self._transactions.can_retry(batch, response)

    def _reenqueue(self, batch: ProducerBatch, now: int) -> None:
        leader = self._metadata.leaders.get(batch.queue.tp)
        if leader is None or not self._rules.skips_backoff(batch.leader_epoch, leader.epoch):
            batch.backoff_until = now + self._connections.backoff.after_us(batch.attempts)
        self._put_back(batch)

    def _put_back(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        queue.reenqueue(batch)
        if queue.batches and (node := self._leaders.get(queue)) is not None:
            node.pending[queue.tp] = queue

    def _split(self, batch: ProducerBatch) -> None:
        """Split a batch that the broker found too large; the parts are sent in its place."""
        limit = self._rules.split_size(self._config.batch_size)
        for part in reversed(self._accumulator.split(batch, limit)):
            self._put_back(part)

    # The cluster.

    def on_metadata(self, now: int) -> None:
        """Move queues to their new leaders; a newer leader ends the backoff of their batches."""
        for queue in self._accumulator.queues.values():
            if queue not in self._leaders and not queue.batches:
                continue
            node = self._find_leader(queue)
            if queue.batches:
                leader = self._metadata.leaders.get(queue.tp)
                for batch in queue.batches:
                    if leader is None or batch.backoff_until <= now:
                        break
                    if self._rules.skips_backoff(batch.leader_epoch, leader.epoch):
                        batch.backoff_until = now
                if node is None:
                    self._metadata.request_update(now)
        self.drain_all(now)

    def _find_leader(self, queue: PartitionQueue) -> Node | None:
        """Move a queue to the node of its leader; None while the leader is unknown."""
        tp = queue.tp
        leader = self._metadata.leaders.get(tp)
        address = None if leader is None else self._metadata.brokers.get(leader.leader)
        node = None
        if leader is not None and address is not None:
            channel = self._connections.channel(leader.leader, address)
            node = self._nodes.get(leader.leader)
            if node is None:
                node = self._nodes[leader.leader] = Node(leader.leader, channel)
            node.channel = channel
        before = self._leaders.get(queue)
        if node is not before:
            if before is not None:
                before.pending.pop(tp, None)
                del self._leaders[queue]
            if node is not None:
                self._leaders[queue] = node
                if queue.batches:
                    node.pending[tp] = queue
        return node

    def _on_connected(self, node_id: int, now: int) -> None:
        if (node := self._nodes.get(node_id)) is not None and node.pending:
            self._drain(node, now)

    def _on_disconnected(self, node_id: int, now: int) -> None:
        if (node := self._nodes.get(node_id)) is not None and node.pending:
            self._arm(node.channel.not_before)
