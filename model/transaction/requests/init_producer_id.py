"""InitProducerId: a producer id and an epoch for a transactional id (KIP-98, KIP-360).

    unknown id                a new producer id, epoch 0 (or after those used before the run)
    Empty, Complete*          the next epoch; a new producer id once the epochs are exhausted
    Ongoing                   the transaction is aborted under a fencing epoch;
                              CONCURRENT_TRANSACTIONS lets the client ask again
    Prepare*, or pending      CONCURRENT_TRANSACTIONS

A client that sends its producer id and epoch asks to raise its own epoch, after an error from which
it can recover. It is fenced if another producer was initialized meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.model.errors import Errors
from kafkasim.model.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkasim.model.transaction.metadata import (
    NO_TIMESTAMP,
    TransactionMetadata,
    TxnTransitMetadata,
    is_epoch_exhausted,
)
from kafkasim.model.transaction.requests.end_transaction import (
    Done,
    EndTransaction,
    ProducerIdManager,
    refuse,
)
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.state_manager import (
    CoordinatorEpochAndTxnMetadata,
    TransactionStateManager,
)
from kafkasim.model.transaction.states import (
    AT_REST,
    DECIDED,
    EMPTY,
    ONGOING,
    PREPARE_EPOCH_FENCE,
)

NONE = Errors.NONE
Expected = tuple[int, int]  # the producer's own id and epoch


class InitProducerId:
    """Serves InitProducerId.

    ``epochs_used`` says of some transactional ids how many epochs of their producer id were used
    before the run. The coordinator adds such an id as if its last epoch had been given out and its
    last transaction ended: the first InitProducerId raises that epoch, or gives a new producer id
    if it was the last one. So the record of that request is the first of the id in the log, and a
    coordinator that loads it is none the wiser. What differs from a cluster that ran that long: the
    log has no older records of the id, compacted or not; the producer id is one of the newest, so
    no leader knows an older epoch of it; and no client has one. An id that has expired, or whose
    records were lost, begins at that epoch again, where Kafka begins at 0; the producer id is
    another one then. A client that names its own epoch when the id is new is served as in Kafka.
    """

    def __init__(
        self,
        manager: TransactionStateManager,
        ending: EndTransaction,
        producer_ids: ProducerIdManager,
        rules: TransactionRules,
        epochs_used: Mapping[str, int],
    ) -> None:
        self._manager = manager
        self._ending = ending
        self._producer_ids = producer_ids
        self._rules = rules
        self._epochs_used = epochs_used

    def handle(
        self,
        transactional_id: str | None,
        txn_timeout_ms: int,
        expected: Expected | None,
        done: Done,
        now: int,
    ) -> None:
        """Answer with a producer id and epoch (handleInitProducerId)."""
        found: CoordinatorEpochAndTxnMetadata | Errors
        if transactional_id is None:
            producer_id = self._producer_ids.generate(now)
            if producer_id is None:
                refuse(done, Errors.COORDINATOR_LOAD_IN_PROGRESS, now)
            else:
                done(NONE, producer_id, 0, now)
            return
        if not transactional_id:
            found = Errors.INVALID_REQUEST
        elif not self._manager.timeout_is_valid(txn_timeout_ms):
            found = Errors.INVALID_TRANSACTION_TIMEOUT
        else:
            used = self._epochs_used.get(transactional_id, 0) if expected is None else 0
            found = self._get_or_add(transactional_id, txn_timeout_ms, used - 1, now)
        if isinstance(found, Errors):
            refuse(done, found, now)
            return
        transit = self._prepare(found.metadata, txn_timeout_ms, expected, now)
        if isinstance(transit, Errors):
            refuse(done, transit, now)
        elif transit.state is PREPARE_EPOCH_FENCE:
            self._fence(transactional_id, transit, done, now)
        else:

            def appended(error: Errors, at: int) -> None:
                if error is NONE:
                    done(NONE, transit.producer_id, transit.producer_epoch, at)
                else:
                    refuse(done, error, at)

            epoch = found.coordinator_epoch
            self._manager.append(transactional_id, epoch, transit, "init", appended, now)

    def _get_or_add(
        self, transactional_id: str, txn_timeout_ms: int, last_epoch: int, now: int
    ) -> CoordinatorEpochAndTxnMetadata | Errors:
        """Return an id; add it if need be, with the last epoch that was given out, or −1."""
        found = self._manager.get(transactional_id)
        if found is not None:
            return found
        producer_id = self._producer_ids.generate(now)
        if producer_id is None:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        now_ms = self._manager.runtime.wall_ms(now)
        created = TxnTransitMetadata(
            producer_id,
            NO_PRODUCER_ID,
            NO_PRODUCER_ID,
            last_epoch,
            NO_PRODUCER_EPOCH,
            txn_timeout_ms,
            EMPTY,
            (),
            NO_TIMESTAMP,
            now_ms,
            0,
        )
        return self._manager.put(TransactionMetadata(transactional_id, created))

    def _prepare(
        self,
        metadata: TransactionMetadata,
        txn_timeout_ms: int,
        expected: Expected | None,
        now: int,
    ) -> TxnTransitMetadata | Errors:
        """Prepare what becomes of the id (prepareInitProducerIdTransit)."""
        if metadata.pending is not None:
            return Errors.CONCURRENT_TRANSACTIONS
        if expected is not None and not _is_valid_producer_id(metadata, expected):
            return Errors.PRODUCER_FENCED
        if metadata.state in DECIDED:
            return Errors.CONCURRENT_TRANSACTIONS
        epoch = metadata.producer_epoch
        if metadata.state is ONGOING:
            fencing = self._rules.fencing_epoch(epoch, metadata.has_failed_epoch_fence)
            if fencing is None:
                self._manager.tell_exhausted(metadata, "fence")
                return Errors.UNKNOWN_SERVER_ERROR
            return metadata.prepare_fence_producer_epoch(fencing)
        assert metadata.state in AT_REST, (metadata.transactional_id, metadata.state)
        now_ms = self._manager.runtime.wall_ms(now)
        if not is_epoch_exhausted(epoch):
            expected_epoch = None if expected is None else expected[1]
            return metadata.prepare_increment_producer_epoch(txn_timeout_ms, expected_epoch, now_ms)
        if expected is not None and expected[1] != epoch:
            # Kafka fails on an assertion here (IllegalStateException, sent as this error).
            return Errors.UNKNOWN_SERVER_ERROR
        producer_id = self._producer_ids.generate(now)
        if producer_id is None:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return metadata.prepare_producer_id_rotation(
            producer_id, txn_timeout_ms, now_ms, expected is not None
        )

    def _fence(
        self, transactional_id: str, transit: TxnTransitMetadata, done: Done, now: int
    ) -> None:
        """Abort the open transaction; the client asks again when that is over."""

        def ended(error: Errors, _producer_id: int, _epoch: int, at: int) -> None:
            refuse(done, Errors.CONCURRENT_TRANSACTIONS if error is NONE else error, at)

        self._ending.abort_fenced(transactional_id, transit, "fence", ended, now)


def _is_valid_producer_id(metadata: TransactionMetadata, expected: Expected) -> bool:
    """Return whether a client's own producer id may be the newest (isValidProducerId).

    The epoch −1 says that the id was created just now, for a client that recovers from
    UNKNOWN_PRODUCER_ID. A client may also repeat a request that got it another producer id.
    """
    producer_id, epoch = expected
    return (
        metadata.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == metadata.producer_id
        or (producer_id == metadata.current.previous_producer_id and is_epoch_exhausted(epoch))
    )
