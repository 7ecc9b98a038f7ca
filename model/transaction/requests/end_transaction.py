"""EndTxn, and aborts by the coordinator itself: the decision, then the markers.

The decision (Prepare*) is committed first; then the client is answered, and the markers are sent.
From transaction.version 2 on a decision raises the producer's epoch and the answer carries it
(KIP-890). Whether a request repeats an earlier one is then told by its epoch:

    the id is …       repeated (epoch before)      of the current epoch
    Empty             PRODUCER_FENCED              abort: decided; commit: INVALID_TXN_STATE
    Ongoing           PRODUCER_FENCED              decided
    pending           CONCURRENT_TRANSACTIONS, to any epoch and producer id
    Prepare*          CONCURRENT_TRANSACTIONS      PRODUCER_FENCED
    Complete*         same direction: NONE,        abort: decided; commit: INVALID_TXN_STATE
                      opposite: INVALID_TXN_STATE

In Prepare* the completion is pending, unless its markers were given up. The pending state is
checked first, because a client may already have a producer id that is only pending here: an end
that exhausts the epochs answers with the next producer id and epoch 0.

Before that version, Prepare* gets CONCURRENT_TRANSACTIONS in both directions, because the
completion is pending; Complete* gets NONE in the same direction, INVALID_TXN_STATE in the opposite
one, and so does an end without a beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkasim.model.errors import Errors
from kafkasim.model.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkasim.model.transaction.metadata import (
    EPOCH_BUMP,
    MAX_EPOCH,
    TransactionMetadata,
    TxnTransitMetadata,
    is_epoch_exhausted,
)
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.state_manager import TransactionStateManager
from kafkasim.model.transaction.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DECIDED,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    TransactionState,
)
from kafkasim.model.values import value

NONE = Errors.NONE
Done = Callable[[Errors, int, int, int], None]  # (error, producer id, epoch, now)


@value
class EndTxn:
    """How a transaction is to end, and who wants it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int  # of the producer, or the one that fences it
    committing: bool
    client_version: int  # transaction.version of the request; the coordinator's: the finalized one
    reason: str = "end"  # end: a client asks; fence, timeout: the coordinator itself

    @property
    def is_from_client(self) -> bool:
        """Whether the producer itself asks."""
        return self.reason == "end"


class Markers(Protocol):
    """Writes the markers of a decided transaction."""

    def add_txn_markers_to_send(
        self,
        coordinator_epoch: int,
        metadata: TransactionMetadata,
        completion: TxnTransitMetadata,
        now: int,
    ) -> None:
        """Send the markers, then append ``completion``."""
        ...


class ProducerIdManager(Protocol):
    """Hands out producer ids."""

    def generate(self, now: int) -> int | None:
        """Return a fresh producer id, None while the controller's next block is awaited."""
        ...


class EndTransaction:
    """Ends transactions."""

    def __init__(
        self,
        manager: TransactionStateManager,
        markers: Markers,
        producer_ids: ProducerIdManager,
        rules: TransactionRules,
    ) -> None:
        self._manager = manager
        self._markers = markers
        self._producer_ids = producer_ids
        self._rules = rules

    def handle(self, request: EndTxn, done: Done, now: int) -> None:
        """Decide a transaction and have its markers written (endTransaction)."""
        if not request.transactional_id:
            refuse(done, Errors.INVALID_REQUEST, now)
            return
        found = self._manager.get(request.transactional_id)
        if isinstance(found, Errors) or found is None:
            error = Errors.INVALID_PRODUCER_ID_MAPPING if found is None else found
            refuse(done, error, now)
            return
        metadata = found.metadata
        fences = metadata.pending is PREPARE_EPOCH_FENCE
        if request.client_version >= EPOCH_BUMP:
            decided = self._decide(request, metadata, fences, now)
        else:
            decided = self._decide_without_bump(request, metadata, fences, now)
        if decided is NONE and request.client_version >= EPOCH_BUMP:
            done(NONE, metadata.producer_id, metadata.producer_epoch, now)
        elif isinstance(decided, Errors):
            refuse(done, decided, now)
        else:
            self._append(request, found.coordinator_epoch, decided, fences, done, now)

    def abort_fenced(
        self, transactional_id: str, fencing: TxnTransitMetadata, reason: str, done: Done, now: int
    ) -> None:
        """Abort an open transaction under the epoch that fences its producer."""
        version = self._manager.transaction_version()
        producer = (fencing.producer_id, fencing.producer_epoch)
        self.handle(EndTxn(transactional_id, *producer, False, version, reason), done, now)

    # ----------------------------------------------------------------------- the decision

    def _decide_without_bump(
        self, request: EndTxn, metadata: TransactionMetadata, fences: bool, now: int
    ) -> TxnTransitMetadata | Errors:
        """Prepare the decision, or say why not (endTransactionWithTV1)."""
        epoch = metadata.producer_epoch
        if metadata.producer_id != request.producer_id:
            return Errors.INVALID_PRODUCER_ID_MAPPING
        if request.producer_epoch < epoch or (
            request.is_from_client and request.producer_epoch != epoch
        ):
            return Errors.PRODUCER_FENCED
        if metadata.pending is not None and not fences:
            return Errors.CONCURRENT_TRANSACTIONS
        if metadata.state is ONGOING:
            if fences and not request.committing:
                metadata.fence(request.producer_epoch)
            return self._prepare(request, metadata, 0, NO_PRODUCER_ID, False, now)
        if metadata.state is EMPTY or _is_opposite(metadata.state, request.committing):
            return Errors.INVALID_TXN_STATE
        return Errors.CONCURRENT_TRANSACTIONS if metadata.state in DECIDED else NONE

    def _decide(
        self, request: EndTxn, metadata: TransactionMetadata, fences: bool, now: int
    ) -> TxnTransitMetadata | Errors:
        """Prepare the decision, or say why not (endTransaction)."""
        if metadata.pending is not None and not fences:
            return Errors.CONCURRENT_TRANSACTIONS
        is_retry, overflowed = _is_retry(request, metadata, fences)
        if metadata.producer_id != request.producer_id and not overflowed:
            return Errors.INVALID_PRODUCER_ID_MAPPING
        if not _is_valid_epoch(request, metadata, fences, is_retry):
            return Errors.PRODUCER_FENCED
        state = metadata.state
        if state in DECIDED:
            opposite = _is_opposite(state, request.committing)
            return Errors.INVALID_TXN_STATE if opposite else Errors.CONCURRENT_TRANSACTIONS
        if state is not ONGOING:
            if is_retry and state is not EMPTY:
                opposite = _is_opposite(state, request.committing)
                return Errors.INVALID_TXN_STATE if opposite else NONE
            if request.committing:
                return Errors.INVALID_TXN_STATE
        next_producer_id: int | None = NO_PRODUCER_ID
        if not fences and is_epoch_exhausted(metadata.producer_epoch):
            next_producer_id = self._producer_ids.generate(now)
        if fences and not request.committing:
            if self._rules.fence_is_in_memory_first():
                metadata.fence(request.producer_epoch)
            else:
                metadata.pending = None
        if next_producer_id is None:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        version, empty = request.client_version, state is not ONGOING
        return self._prepare(request, metadata, version, next_producer_id, empty, now)

    def _prepare(
        self,
        request: EndTxn,
        metadata: TransactionMetadata,
        version: int,
        next_producer_id: int,
        no_partition_added: bool,
        now: int,
    ) -> TxnTransitMetadata | Errors:
        decided = metadata.prepare_abort_or_commit(
            PREPARE_COMMIT if request.committing else PREPARE_ABORT,
            version,
            next_producer_id,
            self._manager.runtime.wall_ms(now),
            no_partition_added,
        )
        if isinstance(decided, Errors):
            self._manager.tell_exhausted(metadata, request.reason)
        return decided

    # ------------------------------------------------------------------ after the decision

    def _append(
        self,
        request: EndTxn,
        coordinator_epoch: int,
        transit: TxnTransitMetadata,
        fences: bool,
        done: Done,
        now: int,
    ) -> None:
        def appended(error: Errors, at: int) -> None:
            if error is NONE:
                self._send_markers(request, coordinator_epoch, done, at)
                return
            if fences:
                self._note_failed_fence(request.transactional_id, coordinator_epoch)
            refuse(done, error, at)

        transactional_id, reason = request.transactional_id, request.reason
        self._manager.append(transactional_id, coordinator_epoch, transit, reason, appended, now)

    def _note_failed_fence(self, transactional_id: str, coordinator_epoch: int) -> None:
        metadata = self._manager.under_epoch(transactional_id, coordinator_epoch)
        if not isinstance(metadata, Errors):
            metadata.has_failed_epoch_fence = True

    def _send_markers(self, request: EndTxn, coordinator_epoch: int, done: Done, now: int) -> None:
        """Answer, and send the markers: the decision is committed (sendTxnMarkersCallback)."""
        found = self._manager.get(request.transactional_id)
        if isinstance(found, Errors):
            refuse(done, found, now)
            return
        assert found is not None, request
        metadata = found.metadata
        error = NONE
        if found.coordinator_epoch != coordinator_epoch:
            error = Errors.NOT_COORDINATOR
        else:
            error = _check_decided(request, metadata)
        if error is not NONE:
            refuse(done, error, now)
            return
        completion = metadata.prepare_complete(self._manager.runtime.wall_ms(now))
        if request.client_version >= EPOCH_BUMP:
            # That of the completion: a new producer id, once the epochs are exhausted.
            done(NONE, completion.producer_id, completion.producer_epoch, now)
        else:
            done(NONE, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, now)
        self._markers.add_txn_markers_to_send(coordinator_epoch, metadata, completion, now)


def refuse(done: Done, error: Errors, now: int) -> None:
    """Answer with an error, and without a producer id."""
    done(error, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, now)


def _is_opposite(state: TransactionState, committing: bool) -> bool:
    """Return whether a decision was made against the one that is asked for."""
    return (state in (PREPARE_COMMIT, COMPLETE_COMMIT)) is not committing


def _is_retry(request: EndTxn, metadata: TransactionMetadata, fences: bool) -> tuple[bool, bool]:
    """Return whether a request was served before, and whether that exhausted the epochs."""
    epoch = metadata.producer_epoch
    overflowed = (
        not fences
        and metadata.current.previous_producer_id == request.producer_id
        and request.producer_epoch == MAX_EPOCH - 1
        and epoch == 0
    )
    return overflowed or (not fences and epoch == request.producer_epoch + 1), overflowed


def _is_valid_epoch(
    request: EndTxn, metadata: TransactionMetadata, fences: bool, is_retry: bool
) -> bool:
    """Return whether the epoch is the producer's newest, or the last one of a repeated request."""
    epoch, state = metadata.producer_epoch, metadata.state
    if fences:
        same = not request.is_from_client or request.producer_epoch == epoch
        return same and request.producer_epoch >= epoch
    if state in DECIDED:
        return epoch == request.producer_epoch + 1
    if state in (COMPLETE_COMMIT, COMPLETE_ABORT):
        return is_retry or request.producer_epoch == epoch
    return request.producer_epoch == epoch


def _check_decided(request: EndTxn, metadata: TransactionMetadata) -> Errors:
    """Return NONE if the committed decision is still the newest thing about the id."""
    bump = request.client_version >= EPOCH_BUMP
    epochs = (request.producer_epoch, request.producer_epoch + 1 if bump else -1)
    if metadata.producer_id != request.producer_id:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch not in epochs:
        return Errors.PRODUCER_FENCED
    if metadata.pending is not None:
        return Errors.CONCURRENT_TRANSACTIONS
    if metadata.state not in DECIDED or _is_opposite(metadata.state, request.committing):
        return Errors.INVALID_TXN_STATE
    return NONE
