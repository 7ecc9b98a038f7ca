"""What the Sender does and asks for a transactional producer (Sender.runOnce, nextRequest).

At most one transactional request is in flight. While one is, or waits for its backoff, no batch is
sent: Kafka's Sender thread waits for it. A request to a coordinator goes over the connection on
which batches go to the same broker, and so it waits, too, if their quota is exceeded (KIP-219,
Sender.awaitNodeReady). The first request on a connection to the transaction coordinator is
ApiVersions, whose answer tells the finalized transaction.version; Kafka asks on all connections,
and takes the answer with the newest features epoch.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.client.exceptions import (
    InvalidProducerEpochError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from kafkasim.model.client.producer.transactions.requests import (
    UNAUTHORIZED,
    CoordinatorType,
    TxnRequest,
)
from kafkasim.model.client.producer.transactions.states import State
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.facts import HoleEntered
from kafkasim.model.messages import ApiVersionsRequest, ApiVersionsResponse
from kafkasim.model.records import NO_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.producer.batches import ProducerBatch
    from kafkasim.model.client.producer.sequences import ProducerSequences
    from kafkasim.model.client.producer.transactions.manager import TransactionalManager
    from kafkasim.model.messages import ProducePartitionResponse

TRANSACTION_VERSION = "transaction.version"

EXCEPTIONS: dict[Errors, type[KafkaError]] = {
    Errors.PRODUCER_FENCED: ProducerFencedError,
    Errors.INVALID_PRODUCER_EPOCH: InvalidProducerEpochError,
    Errors.TRANSACTION_ABORTABLE: TransactionAbortableError,
}


def _is_unauthorized(error: KafkaError | None) -> bool:
    return error is not None and error.error in [each.name for each in UNAUTHORIZED]


class Batches(Protocol):
    """Who can give batches up: the Sender."""

    def abort(self, error: str, undrained: bool, now: int) -> None:
        """Give up all batches, or those that were never sent (``undrained``)."""


class TransactionalSending:
    """The transactional side of one producer's Sender."""

    def __init__(
        self,
        manager: TransactionalManager,
        sequences: ProducerSequences,
        metadata: Metadata,
        incomplete: Mapping[int, ProducerBatch],
        batches: Batches,
    ) -> None:
        self._manager = manager
        self._sequences = sequences
        self._metadata = metadata
        self._connections = metadata.connections
        self._process = metadata.connections.process
        self._incomplete = incomplete  # the batches without a result
        self._batches = batches
        self.assign_sequence = sequences.assign
        self.on_completed = sequences.on_completed
        self.unblocked: list[Callable[[int], None]] = []  # batches may go that may_send held back
        self._busy = False  # a request is in flight, or waits for its backoff
        self._greeted: int | None = None  # the connection that has answered ApiVersions
        self._features_epoch = -1
        self._key = ("transactional", metadata.connections.name)
        # What waits until a node lets it go, and the node (Sender.awaitNodeReady).
        self._awaiting: tuple[TxnRequest, int] | None = None
        metadata.connections.disconnected.append(self._on_disconnected)

    # What the Sender asks about batches.

    def may_send(self, batch: ProducerBatch, _now: int) -> bool:
        """Return whether the first batch of a queue may be sent now.

        One that was never sent is given up in place of that when the transaction has failed or is
        being aborted (Sender.maybeSendAndPollTransactionalRequest).
        """
        manager = self._manager
        if self._busy or manager.state is State.FATAL_ERROR or self._sequences.producer_id < 0:
            return False
        if manager.aborts_batches and batch.base_sequence == NO_SEQUENCE:
            return False
        return batch.queue.tp in manager.partitions and self._sequences.may_send(batch)

    def can_retry(self, batch: ProducerBatch, response: ProducePartitionResponse) -> bool:
        """Return whether a refused batch may be sent again (TransactionManager.canRetry).

        The transaction cannot go on after a gap, or after a broker has lost the producer's state.
        It goes on if the state went with the head of the log: what is in flight begins anew.
        """
        error = response.error
        if error is Errors.UNKNOWN_PRODUCER_ID:
            entry, log_start = batch.queue.sequences, response.log_start_offset
            if log_start == -1 or batch.sequence_reset:
                return True
            if entry.last_acked_offset < log_start:
                self._sequences.start_at_beginning(entry)
                return True
            return False
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return self._sequences.is_out_of_turn(batch)
        return error in RETRIABLE

    def on_failed(self, batch: ProducerBatch, error: Errors, adjust: bool) -> None:
        """Let the transaction fail: a batch was given up (handleFailedBatch)."""
        manager = self._manager
        # What fails now may let the next transaction go on under this epoch: this one is completing
        # (maybeTransitionToErrorState), and its end brings no new one (KIP-890).
        keeps_epoch = manager.completing and manager.transaction_version < 2
        kind = EXCEPTIONS.get(error, KafkaError)
        manager.on_send_error(kind(error.name, str(batch.queue.tp)), error)
        if batch.base_sequence == NO_SEQUENCE:
            return
        batch.queue.sequences.remove(batch)
        if manager.state is State.FATAL_ERROR:
            return
        if error is Errors.UNKNOWN_PRODUCER_ID:
            self._sequences.forget(batch)
        elif adjust:
            if keeps_epoch:
                partition, producer_id = batch.queue.tp.partition, batch.producer_id
                hole = ("given-back-sequence", batch.topic_id, partition, "", "", producer_id)
                self._process.out.append(HoleEntered(*hole))
            self._sequences.take_back(batch)

    def on_expired(self, batch: ProducerBatch, in_retry: bool) -> None:
        """Let the transaction fail: a batch expired, which may be in the log if it was sent."""
        self.on_failed(batch, Errors.REQUEST_TIMED_OUT, False)
        if batch.base_sequence != NO_SEQUENCE and in_retry:
            self._sequences.mark_unresolved(batch)

    # Requests.

    @property
    def transactional_id(self) -> str:
        """The producer's transactional.id."""
        return self._manager.transactional_id

    @property
    def transaction_version(self) -> int:
        """The level of transaction.version that the transaction has begun with."""
        return self._manager.transaction_version

    @property
    def work_pending(self) -> bool:
        """Whether resolve_sequences() has something to do."""
        return not self._busy and (self._manager.has_work or bool(self._sequences.unresolved))

    def resolve_sequences(self, now: int) -> None:
        """Do what comes before batches: gaps, errors, and the next request (Sender.runOnce)."""
        manager = self._manager
        if self._sequences.unresolved and self._sequences.resolve():
            manager.require_bump()
            detail = "a batch expired that may have been appended"
            manager.abortable(KafkaError("UNKNOWN_SERVER_ERROR", detail))
        while not self._busy:
            incomplete = bool(self._incomplete)
            if manager.state is State.FATAL_ERROR:
                if incomplete:
                    assert manager.last_error is not None, manager.state
                    self._batches.abort(manager.last_error.error, False, now)
                return
            if manager.state is State.ABORTABLE_ERROR and _is_unauthorized(manager.last_error):
                assert manager.last_error is not None
                error_ = manager.last_error
                self._batches.abort(error_.error, False, now)
                manager.uninitialize(error_)
                return
            if manager.aborts_batches and incomplete:
                error = manager.last_error or TransactionAbortedError("TRANSACTION_ABORTED")
                self._batches.abort(error.error, True, now)
                incomplete = bool(self._incomplete)
            if not manager.has_request(incomplete):
                return
            request = manager.next_request()
            if request is not None:
                self._attempt(request, now)

    def _attempt(self, request: TxnRequest, now: int) -> None:
        """Send a request, or have its coordinator looked up first."""
        if request.hole:
            group = "" if request.is_end else request.key
            producer_id = self._sequences.producer_id
            self._process.out.append(
                HoleEntered(request.hole, group=group, producer_id=producer_id)
            )
            request.hole = ""
        kind = request.coordinator
        channel: Channel | None
        if kind is None:
            channel = self._connections.least_loaded(now)
            if channel is None:
                request.is_retry = True
                self._manager.enqueue(request)
                self._metadata.request_update(now)
                self._sleep(max(now + 1, self._connections.next_attempt()), self._wake)
                return
        else:
            node = self._manager.coordinators.get(kind)
            if node is None:
                request.disconnected()  # and so it will wait for its backoff, as Kafka's does
                return
            channel = self._connections.channel(*node)
            if channel.throttled_until > now:
                channel.connect(now)
                self._await(request, node[0], channel, now)
                return
        self._send_or_back_off(request, channel, now)

    def _await(self, request: TxnRequest, node_id: int, channel: Channel, now: int) -> None:
        """Wait until a node takes requests again, at most for the request timeout.

        Then have the coordinator looked up (maybeFindCoordinatorAndRetry).
        """
        self._awaiting = (request, node_id)
        patience = now + channel.request_timeout_us
        if channel.throttled_until <= patience:
            self._sleep(channel.throttled_until, partial(self._on_unthrottled, request, channel))
        else:
            self._sleep(patience, partial(self._on_unready, request))

    def _on_unthrottled(self, request: TxnRequest, channel: Channel, now: int) -> None:
        self._awaiting = None
        self._send_or_back_off(request, channel, now)

    def _on_unready(self, request: TxnRequest, now: int) -> None:
        self._awaiting = None
        request.disconnected()
        self._wake(now)

    def _on_disconnected(self, node_id: int, now: int) -> None:
        """Wait no more for a node whose connection is gone (NetworkClientUtils.awaitReady)."""
        if self._awaiting is not None and self._awaiting[1] == node_id:
            self._process.timers.cancel(self._key)
            self._on_unready(self._awaiting[0], now)

    def _send_or_back_off(self, request: TxnRequest, channel: Channel, now: int) -> None:
        if not request.is_retry:
            self._send(request, channel, now)
            return
        backoff_ms = self._connections.config.retry_backoff_ms
        if request.backoff_ms is not None:
            backoff_ms = min(backoff_ms, request.backoff_ms)
        self._sleep(now + backoff_ms * 1000, partial(self._send, request, channel))

    def _sleep(self, until: int, then: Callable[[int], None]) -> None:
        self._busy = True
        self._process.timers.arm(self._key, until, "main", then)

    def _wake(self, now: int) -> None:
        self._busy = False
        self._go_on(now)

    def _send(self, request: TxnRequest, channel: Channel, now: int) -> None:
        """Send a request; ApiVersions goes first on a new connection to the coordinator."""
        self._busy = True
        to_coordinator = request.coordinator is CoordinatorType.TRANSACTION
        if to_coordinator and (channel.connection is None or channel.connection != self._greeted):
            done = partial(self._on_versions, request, channel)
            channel.send(ApiVersionsRequest(), now, done)
        else:
            channel.send(request.message(), now, partial(self._on_response, request))

    def _on_versions(self, request: TxnRequest, channel: Channel, response: Any, now: int) -> None:
        """Learn the finalized transaction.version, then send the request that waited."""
        if not isinstance(response, ApiVersionsResponse) or response.error:
            self._on_response(request, Failed("versions"), now)
            return
        self._greeted = channel.connection
        if response.finalized_features_epoch > self._features_epoch:
            self._features_epoch = response.finalized_features_epoch
            features = dict(response.finalized_features)
            self._manager.finalized_version = features.get(TRANSACTION_VERSION, 0)
        self._send(request, channel, now)

    def _on_response(self, request: TxnRequest, response: Any, now: int) -> None:
        self._busy = False
        if isinstance(response, Failed):
            request.hole = request.hole_of_repetition
            request.disconnected()
        else:
            request.handle(response)
        self._go_on(now)

    def _go_on(self, now: int) -> None:
        """Send the next request if there is one, else batches."""
        self.resolve_sequences(now)
        for callback in self.unblocked:
            callback(now)
