"""A batch that an application has put together: one partition's records, which travel together.

Java's producer has no such call; aiokafka's is ``send_batch``. What is not the application's is as
of the batches that ``send`` makes: memory, retries, sequences, transactions, the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import BufferExhaustedError, KafkaError, KafkaTimeoutError
from kafkasim.model.effects import Reply

if TYPE_CHECKING:
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.producer.accumulator import RecordAccumulator
    from kafkasim.model.client.producer.sender import Sender
    from kafkasim.model.client.producer.transactions.calls import TransactionCalls
    from kafkasim.model.records import Record


class PreparedBatches:
    """Takes the batches of one producer's application into its accumulator."""

    def __init__(
        self,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        sender: Sender,
        transactions: TransactionCalls | None,
        refuses: Callable[[], KafkaError | None],
        tell: Callable[[str, tuple[int, ...], KafkaError, int], None],
    ) -> None:
        """``refuses()`` returns why no batch may be taken now: the producer is closed, say.

        ``tell(topic, record ids, error, waited_us)`` records that one is not taken.
        """
        self._process = metadata.connections.process
        self._metadata = metadata
        self._accumulator = accumulator
        self._sender = sender
        self._transactions = transactions
        self._refuses = refuses
        self._tell = tell

    def send(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Take (topic, partition, records, closed) as one batch.

        The call ``-call`` gets what one of ``send`` gets of the first record, or an error, once the
        batch has its result. With ``closed`` no other record joins the batch, and it does not
        linger. The reply is a KafkaTimeoutError if metadata or memory is missing: nothing was
        taken, and the application may call again.
        """
        topic, partition, records, closed = args
        error = self._refuses() or self._take(call, topic, partition, records, closed, now)
        if error is not None and not isinstance(error, KafkaTimeoutError):
            ids = tuple([record.value for record in records])
            self._tell(topic, ids, error, 0)
        self._process.out.append(Reply(call, None, error))

    def _take(
        self,
        call: int,
        topic: str,
        partition: int,
        records: tuple[Record, ...],
        closed: bool,
        now: int,
    ) -> KafkaError | None:
        count = self._metadata.partition_counts.get(topic)
        if count is None or partition >= count:
            self._metadata.add_topics((topic,), now)
            return KafkaTimeoutError("TIMED_OUT", f"no metadata of {topic}-{partition}")
        accumulator, transactions = self._accumulator, self._transactions
        queue = accumulator.queue(topic, partition)
        try:
            if not accumulator.has_memory_for(records):
                self._end_lingering(now)
                return BufferExhaustedError("BUFFER_EXHAUSTED", "no memory for a batch")
        except KafkaError as error:
            return error
        if transactions is not None:
            for record in records:
                refusal = transactions.sent(queue.tp, record.value)
                if refusal is not None:
                    return refusal
        accumulator.append_batch(queue, records, call, closed, now)
        self._sender.queue_ready(queue, True, now)
        if transactions is not None:
            self._sender.run(now)
        return None

    def _end_lingering(self, now: int) -> None:
        """Send what lingers, as RecordAccumulator.ready has it while somebody waits for memory."""
        before, self._accumulator.skips_linger = self._accumulator.skips_linger, True
        self._sender.drain_all(now)
        self._accumulator.skips_linger = before
