"""Historical bugs of transactions and idempotent producers (KAFKA.md, 8.4)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.client.rules import ClientRules
from kafkasim.model.errors import Errors
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.transaction.metadata import MAX_EPOCH
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.scenarios.variants.variant import Variant


class NothingIsVerified(ReplicationRules):
    """A leader appends a transactional batch without asking whether its transaction is open."""

    def verifies_transactions(self, enabled: bool) -> bool:
        return False


class NoVerificationIsNeeded(StorageRules):
    """A log takes a transaction's first batch without a verification."""

    def is_verified(self, known: Any, guard: Any) -> bool:
        return True


class OldVerificationCounts(StorageRules):
    """A verification counts for the append even after the transaction has ended."""

    def is_verified(self, known: Any, guard: Any) -> bool:
        return guard is not None


class LaterBatchesOvertake(StorageRules):
    """A log takes a verified batch although an earlier one still waits for its verification."""

    def check_unverified_sequence(self, known: Any, entry: Any, sequence: int) -> Errors:
        return Errors.NONE


class MarkersDoNotRefresh(StorageRules):
    """A producer's state expires by the time of its last data, whatever markers have come since."""

    def marker_refreshes_producer(self) -> bool:
        return False


class ForgetsWithRecords(StorageRules):
    """A producer's state goes with the last of its records."""

    def forgets_producers_of_deleted_records(self) -> bool:
        return True


class CountsBeforeAppend(StorageRules):
    """A log counts batches for their producers before it rolls and writes them."""

    def counts_batches_before_append(self) -> bool:
        return True


class TwoThreadsComplete(TransactionRules):
    """A second thread appends the completion again, 300 ms after the first."""

    def second_completion_us(self) -> int:
        return 300_000


class EveryFenceRaisesEpoch(TransactionRules):
    """Each attempt to fence raises the epoch in memory, until none is left."""

    def fencing_epoch(self, epoch: int, has_failed_epoch_fence: bool) -> int | None:
        return epoch + 1 if epoch < MAX_EPOCH else None


class IdleKeepNumbering(ClientRules):
    """A partition that is idle when its producer raises its epoch goes on with its sequences."""

    def new_epoch_renumbers_idle(self) -> bool:
        return False


class NewEpochAtOnce(ClientRules):
    """A partition takes a new producer epoch while batches of the old one are in flight."""

    def new_epoch_waits_for_in_flight(self) -> bool:
        return False


class RetriedMarkerIsOld(StorageRules):
    """Under transaction version 2 a log refuses a marker whose epoch it has already."""

    def check_marker(self, entry: Any, batch: Any, transaction_version: int) -> Errors:
        known = entry is not None and batch.producer_epoch == entry.epoch
        if transaction_version >= 2 and known:
            return Errors.INVALID_PRODUCER_EPOCH
        return super().check_marker(entry, batch, transaction_version)


class TimeoutKeepsEpoch(TransactionRules):
    """A transaction that timed out is aborted under its producer's own epoch."""

    def timeout_fences_producer(self) -> bool:
        return False


class TransactionsBeginInOrder(TransactionRules):
    """A transaction whose begin lies before the last one's cannot complete its change to Ongoing.

    The exception leaves the request without an answer, and the change pending.
    """

    def start_may_go_back(self) -> bool:
        return False


class FailedExpiryIsPending(TransactionRules):
    """The change to Dead stays pending when the tombstone could not be written."""

    def may_expire_again(self) -> bool:
        return False


class AnyAnswerEndsWait(TransactionRules):
    """An answer from an earlier tenure of the coordinator ends the wait for the present markers."""

    def removes_own_markers_only(self) -> bool:
        return False


class AnyMemberCommitsInTransaction(GroupRules):
    """A transaction takes offsets without a look at the member and its generation."""

    def checks_transactional_commit(self) -> bool:
        return False


class IndexEndsWithTheMap(StorageRules):
    """Of a segment's aborted transactions only those that begin below the map's end are kept."""

    def aborted_transactions_bound(self, segment_end: int, map_end: int) -> int:
        return min(segment_end, map_end)


TRANSACTIONS: tuple[Variant, ...] = (
    Variant(
        "B46-hanging-txn-late-produce", "KAFKA-14402",
        (NothingIsVerified, NoVerificationIsNeeded),
        "hanging-transaction", "B46-hanging-txn-late-produce",
        "A batch that comes after the end of its transaction opens no other one.",
    ),
    Variant(
        "B47-verification-aba", "KAFKA-14884", (OldVerificationCounts,),
        "aborted-read", "B47-verification-aba",
        "A batch is not appended with a verification from before its transaction ended.",
    ),
    Variant(
        "B48-txn-timeout-no-epoch-bump", "KAFKA-6119", (TimeoutKeepsEpoch,),
        "torn-transaction", "B48-txn-timeout-no-epoch-bump",
        "A transaction that its coordinator has aborted cannot be committed by its producer.",
    ),
    Variant(
        "B49-marker-does-not-refresh", "KAFKA-9144", (MarkersDoNotRefresh,),
        "aborted-read", "B49-marker-does-not-refresh",
        "A log knows the epoch of the coordinator that wrote its last marker for"
        " producer.id.expiration.ms.",
    ),
    Variant(
        "B50-dup-after-state-loss", "KAFKA-7190", (ForgetsWithRecords,),
        "NODUP", "B50-dup-after-state-loss",
        "A batch whose records were deleted is not appended again when it is sent again.",
    ),
    Variant(
        "B51-double-completion", "KAFKA-10080", (TwoThreadsComplete,),
        "hanging-transaction", "B51-double-completion",
        "A transaction is completed once, and its completion does not end the next one.",
    ),
    Variant(
        "B52-epoch-raised-by-failed-fence", "KAFKA-9666", (EveryFenceRaisesEpoch,),
        "LIVE", "B52-epoch-raised-by-failed-fence",
        "A coordinator that cannot write its log goes on once it can: the attempts have cost one"
        " epoch.",
    ),
    Variant(
        "B54-tv2-marker-retry-equal-epoch", "KAFKA-19999", (RetriedMarkerIsOld,),
        "LIVE", "B54-tv2-marker-retry-equal-epoch",
        "A marker that is sent again after a failover is taken again, and its transaction ends.",
    ),
    Variant(
        "B57-state-before-append", "KAFKA-6683", (CountsBeforeAppend,),
        "ORDER", "B57-state-before-append",
        "A retried batch that is not in the log is no duplicate.",
    ),
    Variant(
        "B58-new-epoch-overtakes", "KAFKA-5494", (NewEpochAtOnce,),
        "EPOCHREASON", "B58-new-epoch-overtakes",
        "Batches in flight keep their epoch and sequences when their producer gets a new epoch.",
    ),
    Variant(
        "B98-idle-keep-numbering", "KAFKA-12152", (IdleKeepNumbering,),
        "EPOCHREASON", "B98-idle-keep-numbering",
        "A producer raises its epoch once for a gap, whatever other partitions it sends to.",
    ),
    Variant(
        "B60-verification-error-seq-loop", "KAFKA-14920", (LaterBatchesOvertake,),
        "VERIFYORDER", "B60-verification-error-seq-loop",
        "A batch whose verification failed can still be appended when it is sent again.",
    ),
    Variant(
        "B61-zombie-offsets-in-txn", "KIP-447", (AnyMemberCommitsInTransaction,),
        "duplicate-output", "B61-zombie-offsets-in-txn",
        "A member that has lost its partitions commits nothing of them in a transaction.",
    ),
    Variant(
        "B101-clock-goes-back", "KAFKA-8803", (TransactionsBeginInOrder,),
        "LIVE", "B101-clock-goes-back",
        "A transaction begins whatever the coordinator's clock says of the one before.",
    ),
    Variant(
        "B102-failed-expiry-is-pending", "KAFKA-7519", (FailedExpiryIsPending,),
        "LIVE", "B102-failed-expiry-is-pending",
        "A transactional id whose tombstone could not be written can be used, and expire later.",
    ),
    Variant(
        "B103-old-answer-ends-wait", "KAFKA-16352", (AnyAnswerEndsWait,),
        "LIVE", "B103-old-answer-ends-wait",
        "A decided transaction ends, though an answer from an earlier tenure comes in between.",
    ),
    Variant(
        "B55-abort-index-lost", "KAFKA-13727", (IndexEndsWithTheMap,),
        "LATEST", "B55-abort-index-lost",
        "What a cleaning copies from behind its map stays aborted for readers.",
    ),
)  # fmt: skip
