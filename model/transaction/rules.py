"""Decisions of the transaction coordinator that Kafka once got wrong or that a release changed.

B48 and its like are numbers of KAFKA.md, section 8.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.transaction.metadata import MAX_EPOCH

REFUSED_FOR_GOOD = (Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED)


class TransactionRules:
    """What Kafka 4.0 decides; a variant overrides single methods."""

    def fencing_epoch(self, epoch: int, has_failed_epoch_fence: bool) -> int | None:
        """Return the epoch under which an open transaction is aborted against its producer.

        It is the next one, unless the record of such an abort failed before: the epoch in memory
        is raised already, and no producer has seen it (B52, KAFKA-9666). None: the epochs are
        exhausted, and the abort fails, also one that failed before (IllegalStateException in
        TransactionMetadata.prepareFenceProducerEpoch).
        """
        if epoch == MAX_EPOCH:
            return None
        return epoch if has_failed_epoch_fence else epoch + 1

    def timeout_fences_producer(self) -> bool:
        """Return whether a transaction that timed out is aborted under a new epoch (B48)."""
        return True

    def fence_is_in_memory_first(self) -> bool:
        """Return whether the fencing epoch counts before its record is written.

        Under transaction.version 2 the record then raises it once more; 4.1 does not (KAFKA-19367).
        """
        return True

    def answers_verification(self) -> bool:
        """Return whether it answers leaders that ask about a transaction (KIP-890, part 1; 3.6).

        Else AddPartitionsToTxn has no version for that, and a leader appends without an answer.
        """
        return True

    def pending_is_asked_first(self) -> bool:
        """Return whether AddPartitionsToTxn looks at a pending change before the producer id.

        The producer may have the id that the pending completion brings, because the epochs of the
        last one are exhausted. 3.9 looks at the producer id and its epoch first.
        """
        return True

    def awaits_markers(self) -> bool:
        """Return whether a decided transaction completes only when all its markers are written.

        From its completion on (TransactionMarkerChannelManager.maybeWriteTxnCompletion) the id may
        begin its next transaction, and a producer that starts finds none that it has to await.
        """
        return True

    def second_completion_us(self) -> int | None:
        """Return how much later a second thread appends the completion, too (B51, KAFKA-10080).

        It has found the last marker written when the first thread did, and then it slept. None:
        whoever removes the transaction from the map appends its completion, once.
        """
        return None

    def gives_up_marker(self, error: Errors) -> bool:
        """Return whether a marker was refused for good, so that its transaction stays decided.

        A producer or a coordinator with a newer epoch is at work then (B54).
        """
        return error in REFUSED_FOR_GOOD

    def resends_markers_at_load(self) -> bool:
        """Return whether a new coordinator sends the markers of the decisions that it loads."""
        return True

    def resigns_when_deposed(self) -> bool:
        """Return whether the coordinator of a partition gives it up when it is deposed."""
        return True

    def may_expire_again(self) -> bool:
        """Return whether an id whose tombstone could not be written is as it was before.

        Otherwise its change to Dead is pending for ever, and its producers are told
        CONCURRENT_TRANSACTIONS (KAFKA-7519, B102).
        """
        return True

    def start_may_go_back(self) -> bool:
        """Return whether a transaction may begin before the last one of its id, by the clock.

        Otherwise completeTransitionTo throws: the request has no answer, and the change is pending
        for ever (KAFKA-8803, B101).
        """
        return True

    def removes_own_markers_only(self) -> bool:
        """Return whether an old answer to markers ends nothing but what it was sent for.

        By the transactional id alone it ends the wait of a coordinator that was elected again, and
        the transaction stays decided (KAFKA-16352, B103).
        """
        return True

    def load_replaces_state(self) -> bool:
        """Return whether a coordinator can load a partition whose state it still has.

        It can, whatever an earlier role has left behind (KAFKA-9307). With B38 the load throws, and
        clients are told COORDINATOR_LOAD_IN_PROGRESS until the broker restarts.
        """
        return True

    def load_continues(self, offset: int, start: int, end: int) -> bool:
        """Return whether a coordinator reads on at ``offset`` of a log from ``start`` to ``end``.

        It does up to the log end, not the high watermark (FetchIsolation.LOG_END).
        """
        return start <= offset < end
