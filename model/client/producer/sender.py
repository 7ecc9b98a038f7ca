"""The producer's I/O half: Kafka's Sender with the drain of RecordAccumulator.

Not a loop: a turn runs when a batch becomes ready, an answer or new metadata arrives, a connection
opens, or the one timer fires that stands for linger and retry backoff. Per node, the queues with
batches are kept in drain order, so a turn touches only what is waiting there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.client.net.connections import backoff_us
from kafkasim.model.client.producer.idempotence import TransactionManager
from kafkasim.model.effects import Reply
from kafkasim.model.errors import INVALID_METADATA, RETRIABLE, Errors
from kafkasim.model.facts import Acked
from kafkasim.model.messages import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkasim.model.records import NO_SEQUENCE, TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.producer.accumulator import PartitionQueue, ProducerBatch
    from kafkasim.model.client.producer.producer import KafkaProducer

NEVER = 1 << 62


class Node:
    """A broker as the sender sees it: its connection and the queues it leads that hold batches."""

    __slots__ = ("channel", "node_id", "pending")

    def __init__(self, node_id: int, channel: Channel) -> None:
        self.node_id = node_id
        self.channel = channel
        self.pending: dict[TopicPartition, PartitionQueue] = {}


class Exchange:
    """A ProduceRequest in flight."""

    __slots__ = ("batches", "node", "sender")

    def __init__(self, sender: Sender, node: Node, batches: list[ProducerBatch]) -> None:
        self.sender = sender
        self.node = node
        self.batches = batches

    def done(self, answer: Any, now: int) -> None:
        """Take the answer, or the reason why there is none."""
        sender = self.sender
        if type(answer) is ProduceResponse:
            batches = self.batches
            partitions = answer.partitions
            if len(batches) == 1 and len(partitions) == 1:
                sender.on_answer(batches[0], partitions[0], now)
            else:
                by_partition = {batch.queue.tp: batch for batch in batches}
                for partition in partitions:
                    sender.on_answer(by_partition[partition.tp], partition, now)
        else:
            assert isinstance(answer, Failed), answer
            for batch in self.batches:
                sender.on_no_answer(batch, answer, now)
        sender.turn(self.node, now)


class Sender:
    """Drains batches to their leaders and handles what comes back."""

    def __init__(self, producer: KafkaProducer) -> None:
        self.producer = producer
        self.process = producer.process
        config = producer.config
        self.config = config
        self.rules = producer.rules
        self.metadata = producer.metadata
        self.connections = producer.connections
        self.connections.connected.append(self._on_connected)
        self.connections.disconnected.append(self._on_disconnected)
        self.acks = config.acks_number
        self.linger_us = config.linger_ms * 1000
        self.delivery_timeout_us = config.delivery_timeout_ms * 1000
        self.max_in_flight = config.max_in_flight_requests_per_connection
        self.guarantee_order = self.max_in_flight == 1
        self.nodes: dict[int, Node] = {}
        self.ids: TransactionManager | None = None
        if config.enable_idempotence:
            self.ids = TransactionManager(self.connections, self.rules, self.drain_all)
        self.exhausted = False  # buffer.memory is used up, or a flush runs: everything is ready
        self._wake = NEVER
        self._key = ("sender", producer.name)

    # What may be sent.

    def on_ready(self, queue: PartitionQueue, now: int) -> None:
        """A queue has a new batch, or its batch became full."""
        node = queue.node
        if node is None:
            node = self._find_node(queue)
            if node is None:
                self.metadata.request_update(now)
                return
        node.pending[queue.tp] = queue
        self.drain(node, now)

    def turn(self, node: Node, now: int) -> None:
        """After an answer: the sequences' housekeeping, then send what the answer made room for."""
        ids = self.ids
        if ids is not None and ids.attention:
            ids.run(now)
            self.drain_all(now)
        elif node.pending:
            self.drain(node, now)

    def drain_all(self, now: int) -> None:
        """Drain every node."""
        for node in list(self.nodes.values()):
            if node.pending:
                self.drain(node, now)

    def drain(self, node: Node, now: int) -> None:
        """Send to a node while it has ready batches and room for requests in flight."""
        pending = node.pending
        channel = node.channel
        while pending:
            if not channel.open:
                if not channel.connect(now):
                    self._arm(channel.not_before)
                return
            if len(channel.in_flight) >= self.max_in_flight:
                return
            queues = self._collect(pending, now)
            if not queues:
                return
            self._send(node, queues, now)

    def _collect(
        self, pending: dict[TopicPartition, PartitionQueue], now: int
    ) -> list[PartitionQueue]:
        """Return the queues whose first batch goes into the next request, [] if none is ready.

        One ready batch takes the first batches of the node's other partitions with it.
        """
        ids = self.ids
        ready = self.exhausted
        wake = NEVER
        size = 0
        queues: list[PartitionQueue] = []
        for queue in pending.values():
            batch = queue.batches[0]
            if queue.muted:
                continue
            if batch.backoff_until > now:
                wake = min(wake, batch.backoff_until)
                continue
            if ids is not None and not ids.may_send(queue, batch, now):
                continue
            if not ready:
                if batch.full or batch.attempts or len(queue.batches) > 1:
                    ready = True
                else:
                    due = batch.created_us + self.linger_us
                    if due <= now:
                        ready = True
                    elif due < wake:
                        wake = due
            if queues and size + batch.size > self.config.max_request_size:
                break
            queues.append(queue)
            size += batch.size
        if ready and queues:
            return queues
        if wake != NEVER:
            self._arm(wake)
        return []

    def _send(self, node: Node, queues: list[PartitionQueue], now: int) -> None:
        ids = self.ids
        pending = node.pending
        leaders = self.metadata.leaders
        batches: list[ProducerBatch] = []
        parts: list[ProducePartition] = []
        for queue in queues:
            tp = queue.tp
            batch = queue.batches.popleft()
            del pending[tp]
            if queue.batches:
                pending[tp] = queue  # served: to the end
            if self.guarantee_order:
                queue.muted = True
            if ids is not None and batch.base_sequence == NO_SEQUENCE:
                ids.assign(queue, batch)
            batch.attempts += 1
            batch.leader_epoch = leaders[tp][1]
            batch.topic_id = self.metadata.last_topic_ids.get(tp.topic, "")
            batches.append(batch)
            parts.append(ProducePartition(tp, batch.wire or batch.build()))
        request = ProduceRequest(self.acks, self.config.request_timeout_ms, tuple(parts))
        if self.acks:
            node.channel.send(request, now, Exchange(self, node, batches).done)
            return
        node.channel.send_unanswered(request)
        for batch in batches:
            batch.queue.muted = False
            self.complete(batch, -1, now)

    def _arm(self, deadline: int) -> None:
        if deadline < self._wake:
            self._wake = deadline
            self.process.timers.arm(self._key, deadline, "main", self._on_wake)

    def _on_wake(self, now: int) -> None:
        self._wake = NEVER
        self.drain_all(now)

    # Answers.

    def on_answer(self, batch: ProducerBatch, response: ProducePartitionResponse, now: int) -> None:
        """The leader answered for one batch (Sender.completeBatch)."""
        error = response.error
        queue = batch.queue
        if not error or error is Errors.DUPLICATE_SEQUENCE_NUMBER:
            self.complete(batch, -1 if error else response.base_offset, now)
            queue.muted = False
            return
        if not self.rules.surely_not_appended(error, self.acks):
            batch.indeterminate = True
        if batch.done:  # expired while this answer was under way
            pass
        elif error is Errors.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            self._split(batch, now)
        elif self._can_retry(batch, response, now):
            self._reenqueue(batch, now)
        else:
            self.fail(batch, error, batch.attempts <= self.config.retries, now)
        queue.muted = False  # only now: a retry goes before the batches behind it
        self.metadata.update_leader(queue.tp, response.current_leader, now)
        if error in INVALID_METADATA:
            self.metadata.request_update(now)

    def on_no_answer(self, batch: ProducerBatch, failed: Failed, now: int) -> None:
        """The connection broke, or the request timed out: nobody knows what became of it."""
        timed_out = failed.reason == "timeout"
        error = Errors.REQUEST_TIMED_OUT if timed_out else Errors.NETWORK_EXCEPTION
        if failed.reason not in ("refused", "backoff"):
            batch.indeterminate = True
        batch.queue.muted = False
        if batch.done:
            return
        response = ProducePartitionResponse(batch.queue.tp, error, -1, -1, -1)
        if self._can_retry(batch, response, now):
            self._reenqueue(batch, now)
        else:
            self.fail(batch, error, False, now)

    def complete(self, batch: ProducerBatch, base_offset: int, now: int) -> None:
        """A batch is acknowledged; ``base_offset`` −1 if unknown."""
        queue = batch.queue
        if self.ids is not None:
            self.ids.on_completed(queue, batch, base_offset)
        if batch.done:
            return
        tp = queue.tp
        out = self.process.out
        out.append(
            Acked(
                batch.topic_id,
                tp.partition,
                base_offset,
                tuple(batch.ids),
                self.acks,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                now - batch.created_us,
                batch.attempts,
            )
        )
        if batch.acks is not None:
            for call, index in batch.acks:
                offset = base_offset + index if base_offset >= 0 else -1
                out.append(Reply(-call, (tp.partition, offset), None))
        self.producer.release(batch, now)

    def fail(self, batch: ProducerBatch, error: Errors, adjust: bool, now: int) -> None:
        """Give a batch up."""
        if self.ids is not None:
            self.ids.on_failed(batch.queue, batch, error, adjust)
        self.producer.give_up(batch, error.name, now)

    def expire(self, batch: ProducerBatch, now: int) -> None:
        """delivery.timeout.ms is over, wherever the batch is."""
        queue = batch.queue
        if batch in queue.batches:
            queue.batches.remove(batch)
            if not queue.batches and queue.node is not None:
                queue.node.pending.pop(queue.tp, None)
        elif batch.attempts:
            batch.indeterminate = True  # in flight
        if self.ids is not None:
            self.ids.on_expired(queue, batch)
        self.producer.give_up(batch, "TIMED_OUT", now)

    def _can_retry(
        self, batch: ProducerBatch, response: ProducePartitionResponse, now: int
    ) -> bool:
        if now - batch.created_us >= self.delivery_timeout_us:
            return False
        if batch.attempts > self.config.retries:
            return False
        if self.ids is None:
            return response.error in RETRIABLE
        return self.ids.can_retry(batch.queue, batch, response)

    def _reenqueue(self, batch: ProducerBatch, now: int) -> None:
        queue = batch.queue
        leader = self.metadata.leaders.get(queue.tp)
        if leader is None or not self.rules.skips_backoff(batch.leader_epoch, leader[1]):
            batch.backoff_until = now + backoff_us(self.config, batch.attempts, self.process.rng)
        self._put_back(batch)

    def _put_back(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        queue.put_back(batch)
        if queue.node is not None:
            queue.node.pending[queue.tp] = queue

    def _split(self, batch: ProducerBatch, now: int) -> None:
        queue = batch.queue
        limit = self.rules.split_size(self.config.batch_size, batch.size)
        parts = batch.split(limit, self.producer.new_numbers(len(batch.records)))
        if batch in queue.in_flight:
            at = queue.in_flight.index(batch)
            queue.in_flight[at : at + 1] = parts
        self.producer.replace(batch, parts)
        for part in reversed(parts):
            self._put_back(part)

    # The cluster.

    def on_metadata(self, now: int) -> None:
        """Leaders may have moved: so do their queues, and a newer leader ends the backoff."""
        for queue in self.producer.queues.values():
            if queue.node is None and not queue.batches:
                continue
            self._find_node(queue)
            if queue.batches:
                leader = self.metadata.leaders.get(queue.tp)
                for batch in queue.batches:
                    if leader is None or batch.backoff_until <= now:
                        break
                    if self.rules.skips_backoff(batch.leader_epoch, leader[1]):
                        batch.backoff_until = now
                if queue.node is None:
                    self.metadata.request_update(now)
        self.drain_all(now)

    def _find_node(self, queue: PartitionQueue) -> Node | None:
        """Move a queue to its leader's node; None while there is no leader."""
        tp = queue.tp
        leader = self.metadata.leaders.get(tp)
        address = None if leader is None else self.metadata.brokers.get(leader[0])
        node = None
        if leader is not None and address is not None:
            channel = self.connections.channel(leader[0], address)
            node = self.nodes.get(leader[0])
            if node is None:
                node = self.nodes[leader[0]] = Node(leader[0], channel)
            node.channel = channel
        if node is not queue.node:
            if queue.node is not None:
                queue.node.pending.pop(tp, None)
            queue.node = node
            if node is not None and queue.batches:
                node.pending[tp] = queue
        return node

    def _on_connected(self, node_id: int, now: int) -> None:
        """A connection is up: send what waited for it."""
        node = self.nodes.get(node_id)
        if node is not None and node.pending:
            self.drain(node, now)

    def _on_disconnected(self, node_id: int, now: int) -> None:
        """A connection broke: try again once its backoff is over."""
        node = self.nodes.get(node_id)
        if node is not None and node.pending:
            self._arm(node.channel.not_before)
