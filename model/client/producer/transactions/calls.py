"""The transactional calls of KafkaProducer: each waits for its result, at most max.block.ms.

After a timeout the application calls the same method again and waits for the same result
(TransactionManager.PendingStateTransition). The transactions of one producer are numbered for the
trace.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import (
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from kafkasim.model.client.producer.sequences import ProducerSequences
from kafkasim.model.client.producer.transactions.manager import TransactionalManager
from kafkasim.model.client.producer.transactions.sending import TransactionalSending
from kafkasim.model.client.producer.transactions.states import SOURCES, State
from kafkasim.model.effects import Reply
from kafkasim.model.errors import Errors
from kafkasim.model.facts import (
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
    TransactionOffsets,
    TransactionSent,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.producer.batches import ProducerBatch
    from kafkasim.model.client.producer.sender import Sender
    from kafkasim.model.client.producer.transactions.result import TransactionalResult
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ProducerConfig


class TransactionCalls:
    """The transactions of one producer, as the application has them.

    ``on_change(now)`` is called when lingering begins or ends with a commit or an abort, and when a
    close may go on.
    """

    def __init__(
        self,
        config: ProducerConfig,
        rules: ClientRules,
        metadata: Metadata,
        incomplete: Mapping[int, ProducerBatch],
        sender: Sender,
        on_change: Callable[[int], None],
    ) -> None:
        sequences = ProducerSequences(rules)
        self._manager = manager = TransactionalManager(config, sequences, self._on_end)
        self._sending = TransactionalSending(manager, sequences, metadata, incomplete, sender)
        self._sending.unblocked.append(on_change)
        self._sender = sender
        self._metadata = metadata
        self._on_change = on_change
        self._process = metadata.connections.process
        self._name = metadata.connections.name
        self._max_block_us = config.max_block_ms * 1000
        self.closed = False
        self._number = -1  # of the open transaction, or of the last one
        sender.use(self._sending)
        self.methods = {
            "init_transactions": self.init_transactions,
            "begin_transaction": self.begin_transaction,
            "send_offsets_to_transaction": self.send_offsets_to_transaction,
            "commit_transaction": self.commit_transaction,
            "abort_transaction": self.abort_transaction,
        }

    # Calls.

    def init_transactions(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Get a producer id and end what an earlier producer of this transactional.id has begun."""
        self._call(call, self._manager.initialize, now)

    def begin_transaction(self, call: int, _args: tuple[Any, ...], _now: int) -> None:
        """Begin a transaction; nothing is sent for that."""
        try:
            self._refuse_closed()
            self._manager.begin()
        except KafkaError as error:
            self._process.out.append(Reply(call, None, error))
            return
        self._number += 1
        manager = self._manager
        self._tell(
            TransactionBegun(
                manager.transactional_id,
                self._number,
                manager.producer_id,
                manager.producer_epoch,
            )
        )
        self._process.out.append(Reply(call, None, None))

    def send_offsets_to_transaction(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Take (offsets, group metadata) into the transaction (KIP-447).

        The offsets are {partition: (offset, leader epoch)}, as KafkaConsumer.consumed has them, or
        {partition: (offset, leader epoch, metadata)}.
        """
        offsets, group = args
        if not offsets:
            self._process.out.append(Reply(call, None, None))
            return
        known = {TopicPartition(*tp): (*offset, "")[:3] for tp, offset in offsets.items()}
        if self._call(call, lambda: self._manager.send_offsets(known, group), now):
            transactional_id = self._manager.transactional_id
            for tp, offset in known.items():
                self._tell(
                    TransactionOffsets(
                        transactional_id,
                        self._number,
                        group.group_id,
                        tp.topic,
                        tp.partition,
                        offset[0],
                    )
                )

    def commit_transaction(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Wait until every record of the transaction is acknowledged, then have it committed."""
        self._end(call, True, now)

    def abort_transaction(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Have the transaction aborted; records that were not sent yet are given up."""
        self._end(call, False, now)

    def _end(self, call: int, committing: bool, now: int) -> None:
        manager = self._manager
        target = State.COMMITTING_TRANSACTION if committing else State.ABORTING_TRANSACTION
        if manager.state in SOURCES[target]:
            self._tell(TransactionEnding(manager.transactional_id, self._number, committing))
        self._call(call, manager.commit if committing else manager.abort, now)

    def _call(self, call: int, begin: Callable[[], TransactionalResult], now: int) -> bool:
        """Begin what a call asks for and have it wait; return False if it was refused."""
        try:
            self._refuse_closed()
            result = begin()
        except KafkaError as error:
            self._process.out.append(Reply(call, None, error))
            return False
        key = ("max.block", self._name, call)
        self._process.timers.arm(
            key, now + self._max_block_us, "main", partial(self._time_out, call)
        )
        result.then(partial(self._finish, call, key, result))
        self._on_change(now)
        self._sender.run(now)
        return True

    def _refuse_closed(self) -> None:
        if self.closed:
            raise KafkaError("CLOSED", "producer is closed")

    def _finish(self, call: int, key: tuple[Any, ...], result: TransactionalResult) -> None:
        """Reply the outcome, unless the call has timed out before."""
        if self._process.timers.armed(key):
            self._process.timers.cancel(key)
            result.acked = True
            self._process.out.append(Reply(call, None, result.error))

    def _time_out(self, call: int, _now: int) -> None:
        self._process.out.append(Reply(call, None, KafkaTimeoutError("TIMED_OUT", "max.block.ms")))

    # Records.

    def sent(self, tp: TopicPartition, record_id: int) -> KafkaError | None:
        """Take a record that is in the accumulator into the transaction.

        Return the error of the send: the transaction has failed, or there is none. The record then
        stays in the accumulator until the transaction is aborted, as in KafkaProducer.doSend.
        """
        manager = self._manager
        try:
            manager.add_partition(tp)
        except KafkaError as error:
            return error
        topic_id = self._metadata.last_topic_ids.get(tp.topic, "")
        self._tell(
            TransactionSent(
                manager.transactional_id, self._number, topic_id, tp.partition, int(record_id)
            )
        )
        return None

    def not_sent(self, error: KafkaError) -> KafkaError:
        """Let the transaction fail: doSend caught an ApiException (maybeTransitionToErrorState).

        Return the error that the application gets.
        """
        manager = self._manager
        if isinstance(error, ProducerFencedError):
            manager.fatal(error)
            return error
        aborting = manager.state is State.ABORTING_TRANSACTION
        if not aborting and manager.state not in SOURCES[State.ABORTABLE_ERROR]:
            return KafkaError("ILLEGAL_STATE", f"{error} in state {manager.state.name}")
        timed_out = isinstance(error, KafkaTimeoutError)
        manager.on_send_error(error, Errors.REQUEST_TIMED_OUT if timed_out else None)
        return error

    # The end.

    @property
    def completing(self) -> bool:
        """Whether a commit or an abort is under way: batches do not linger."""
        return self._manager.completing

    def close(self, now: int) -> bool:
        """Abort an open transaction that nobody ends (Sender.run); return whether none is open."""
        manager = self._manager
        if not manager.has_ongoing_transaction:
            return True
        if not manager.completing:
            self._tell(TransactionEnding(manager.transactional_id, self._number, False))
            try:
                manager.abort()
            except KafkaError:
                return True
            self._sender.run(now)
        return not manager.has_ongoing_transaction

    def _on_end(self, outcome: str) -> None:
        self._tell(TransactionEnded(self._manager.transactional_id, self._number, outcome))

    def _tell(self, fact: Any) -> None:
        self._process.out.append(fact)
