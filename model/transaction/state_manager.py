"""The transactional ids of the partitions that this broker leads (TransactionStateManager).

Every change of an id goes through :meth:`TransactionStateManager.append`: the prepared metadata is
in effect once its record is committed, and another change of that id is refused until then. An
append that is not committed in time fails for its caller, though its record stays in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.hashing import KeyPartitions
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.coordinator.shards import OwnedShards
from kafkasim.model.errors import Errors
from kafkasim.model.facts import EpochsExhausted
from kafkasim.model.facts import TransactionState as StateChanged
from kafkasim.model.records import BATCH_OVERHEAD, Record
from kafkasim.model.transaction.metadata import TransactionMetadata, TxnTransitMetadata
from kafkasim.model.transaction.records import tombstone, transaction_record
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.shard import Appended, PendingAppend, TransactionShard
from kafkasim.model.transaction.states import AT_REST, DEAD, ONGOING
from kafkasim.model.values import value

NONE = Errors.NONE


@value
class CoordinatorEpochAndTxnMetadata:
    """A transactional id, and the epoch of the coordinator that has it."""

    coordinator_epoch: int
    metadata: TransactionMetadata


def _never(_: Errors) -> bool:
    return False


class TransactionStateManager:
    """Looks ids up, appends their records, and says which have timed out or expired.

    ``transaction_version()`` is the finalized level of that feature.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        owned: OwnedShards[TransactionShard],
        config: BrokerConfig,
        rules: TransactionRules,
        transaction_version: Callable[[], int],
    ) -> None:
        self.runtime = runtime
        self._rules = rules
        self.owned = owned
        self.config = config
        self.transaction_version = transaction_version
        self._partitions = KeyPartitions(config.transaction_state_log_num_partitions)

    # ----------------------------------------------------------------------------- look-ups

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` that holds an id."""
        return self._partitions.of(transactional_id)

    def get(self, transactional_id: str) -> CoordinatorEpochAndTxnMetadata | Errors | None:
        """Return an id, None if there is none, or why this broker cannot tell."""
        shard = self._shard(transactional_id)
        if isinstance(shard, Errors):
            return shard
        metadata = shard.transactions.get(transactional_id)
        if metadata is None:
            return None
        return CoordinatorEpochAndTxnMetadata(shard.context.epoch, metadata)

    def under_epoch(
        self, transactional_id: str, coordinator_epoch: int
    ) -> TransactionMetadata | Errors:
        """Return an id if the coordinator still has this epoch, or why it does not."""
        found = self.get(transactional_id)
        if isinstance(found, Errors):
            return found
        if found is None or found.coordinator_epoch != coordinator_epoch:
            return Errors.NOT_COORDINATOR
        return found.metadata

    def put(self, metadata: TransactionMetadata) -> CoordinatorEpochAndTxnMetadata:
        """Add an id that :meth:`get` has just missed, and return it."""
        shard = self._shard(metadata.transactional_id)
        assert isinstance(shard, TransactionShard), (metadata.transactional_id, shard)
        shard.transactions[metadata.transactional_id] = metadata
        return CoordinatorEpochAndTxnMetadata(shard.context.epoch, metadata)

    def _shard(self, transactional_id: str) -> TransactionShard | Errors:
        shard = self.owned.by_partition.get(self.partition_for(transactional_id))
        if shard is None:
            return Errors.NOT_COORDINATOR
        return shard if shard.context.is_active else Errors.COORDINATOR_LOAD_IN_PROGRESS

    def is_loading(self) -> bool:
        """Return whether a partition of this broker is being loaded."""
        return any(not shard.context.is_active for shard in self.owned.by_partition.values())

    def all(self) -> list[TransactionMetadata]:
        """Return all ids of this broker."""
        return [each for shard in self.owned.active() for each in shard.transactions.values()]

    def timeout_is_valid(self, txn_timeout_ms: int) -> bool:
        """Return whether a producer may ask for this transaction timeout."""
        return 0 < txn_timeout_ms <= self.config.transaction_max_timeout_ms

    def timed_out(self, now_ms: int) -> list[TransactionMetadata]:
        """Return the ids whose transaction has been open for longer than its timeout."""
        return [
            each
            for each in self.all()
            if each.pending is None
            and each.state is ONGOING
            and each.current.start_timestamp_ms + each.current.txn_timeout_ms < now_ms
        ]

    # ------------------------------------------------------------------------------ appends

    def append(
        self,
        transactional_id: str,
        coordinator_epoch: int,
        transit: TxnTransitMetadata,
        reason: str,
        done: Appended,
        now: int,
        retried: Callable[[Errors], bool] = _never,
    ) -> None:
        """Append prepared metadata; ``done(error, now)`` is called when it is in effect.

        On an error the id is as it was before, and nothing is pending unless the error is
        ``retried``. ``reason`` is for the trace. (appendTransactionToLog)
        """
        found = self.under_epoch(transactional_id, coordinator_epoch)
        if isinstance(found, Errors):
            done(found, now)
            return

        def appended(error: Errors, at: int) -> None:
            if error is NONE and self._begins_too_early(transactional_id, transit):
                return  # IllegalStateException
            if error is NONE:
                error = self._complete(transactional_id, coordinator_epoch, transit, reason)
            else:
                error = client_error(error)
                again = self.under_epoch(transactional_id, coordinator_epoch)
                if not isinstance(again, Errors) and not retried(error):
                    again.pending = None
            done(error, at)

        now_ms, version = self.runtime.wall_ms(now), self.transaction_version()
        record = transaction_record(transactional_id, transit, version, now_ms)
        shard = self.owned.by_partition[self.partition_for(transactional_id)]
        self._append(shard, (record,), transit.txn_timeout_ms, appended, now)

    def _begins_too_early(self, transactional_id: str, transit: TxnTransitMetadata) -> bool:
        found = self.get(transactional_id)
        return (
            transit.state is ONGOING
            and isinstance(found, CoordinatorEpochAndTxnMetadata)
            and found.metadata.current.start_timestamp_ms > transit.start_timestamp_ms
            and not self._rules.start_may_go_back()
        )

    def _complete(
        self,
        transactional_id: str,
        coordinator_epoch: int,
        transit: TxnTransitMetadata,
        reason: str,
    ) -> Errors:
        """Put committed metadata into effect, unless this broker is another coordinator now."""
        metadata = self.under_epoch(transactional_id, coordinator_epoch)
        if isinstance(metadata, Errors):
            return metadata
        before = metadata.state
        if metadata.pending is not transit.state and self._rules.second_completion_us():
            return Errors.UNKNOWN_SERVER_ERROR  # IllegalStateException; the record is in the log
        metadata.complete_transition_to(transit)
        self.runtime.out.append(
            StateChanged(
                transactional_id,
                transit.producer_id,
                transit.producer_epoch,
                before.value,
                transit.state.value,
                tuple([str(tp) for tp in transit.partitions]),
                transit.txn_timeout_ms,
                coordinator_epoch,
                reason,
            )
        )
        return NONE

    def tell_exhausted(self, metadata: TransactionMetadata, reason: str) -> None:
        """Tell that no epoch is left to end an open transaction with."""
        ids = (metadata.transactional_id, metadata.producer_id, metadata.producer_epoch)
        self.runtime.out.append(EpochsExhausted(*ids, reason))

    def _append(
        self,
        shard: TransactionShard,
        records: tuple[Record, ...],
        timeout_ms: int,
        done: Appended,
        now: int,
    ) -> None:
        """Append records to the partition's log; ``done(error, now)`` when they are committed.

        While the partition takes another leader epoch the append waits: the completion of a
        transaction that is refused as by no leader is given up, and no load would repeat it.
        """
        context = shard.context
        if self.runtime.log.wait_for_role(
            context.tp, partial(self._append_in_role, shard, records, timeout_ms, done)
        ):
            return
        error = self.runtime.append(context, records, now)
        if error is not NONE:
            done(error, now)
            return
        # The high watermark is at the new end already if no other replica is in the ISR.
        committed = self.runtime.log.high_watermark(context.tp)
        shard.appends.append(PendingAppend(context.last_written, now + timeout_ms * 1000, done))
        if committed >= context.last_written:
            self.on_high_watermark(shard, committed, now)
        elif shard.appends:
            self._arm(shard)

    def _append_in_role(
        self,
        shard: TransactionShard,
        records: tuple[Record, ...],
        timeout_ms: int,
        done: Appended,
        now: int,
    ) -> None:
        if self.owned.by_partition.get(shard.context.partition) is shard:
            self._append(shard, records, timeout_ms, done, now)
        else:
            done(Errors.NOT_COORDINATOR, now)

    def on_high_watermark(self, shard: TransactionShard, offset: int, now: int) -> None:
        """Complete, in the order of the log, the appends that the high watermark has passed."""
        while shard.appends and shard.appends[0].end_offset <= offset:
            shard.appends.popleft().done(NONE, now)
        self._arm(shard)

    def take_over(self, old: TransactionShard, new: TransactionShard) -> None:
        """Let the appends of an old epoch wait on, which this broker leads under a new one."""
        if old is not new:
            new.appends.extend(old.appends)
            old.appends.clear()
            self._arm(new)

    def fail_appends(self, shard: TransactionShard, error: Errors, now: int) -> None:
        """Fail all appends of a partition."""
        waiting = list(shard.appends)
        shard.appends.clear()
        self._arm(shard)
        for each in waiting:
            each.done(error, now)

    def _arm(self, shard: TransactionShard) -> None:
        key = ("transaction-append", shard.context.tp)
        if shard.appends:
            deadline = min([each.deadline_us for each in shard.appends])
            self.runtime.arm(shard.context, key, deadline, lambda now: self._on_timeout(shard, now))
        else:
            self.runtime.cancel(key)

    def _on_timeout(self, shard: TransactionShard, now: int) -> None:
        late = [each for each in shard.appends if each.deadline_us <= now]
        for each in late:
            shard.appends.remove(each)
        self._arm(shard)
        for each in late:
            each.done(Errors.REQUEST_TIMED_OUT, now)

    # ------------------------------------------------------------------------------- expiry

    def expire(self, now: int) -> None:
        """Append tombstones of the ids that nobody has used for transactional.id.expiration.ms.

        (removeExpiredTransactionalIds)
        """
        oldest_ms = self.runtime.wall_ms(now) - self.config.transactional_id_expiration_ms
        for shard in self.owned.active():
            expired = [
                each
                for each in shard.transactions.values()
                if each.pending is None
                and each.state in AT_REST
                and each.current.last_update_timestamp_ms <= oldest_ms
            ]
            while expired:
                expired = self._write_tombstones(shard, expired, now)

    def _write_tombstones(
        self, shard: TransactionShard, expired: list[TransactionMetadata], now: int
    ) -> list[TransactionMetadata]:
        """Append tombstones of as many ids as fit into a batch; return the others.

        A batch may be as large as the log takes; Kafka's 16 KiB are the buffer that it begins with.
        """
        now_ms = self.runtime.wall_ms(now)
        records: list[Record] = []
        size = BATCH_OVERHEAD
        for each in expired:
            record = tombstone(each.transactional_id, len(records), now_ms)
            size += record.size
            if records and size > self.config.message_max_bytes:
                break
            records.append(record)
        dying = [(each, each.prepare_dead()) for each in expired[: len(records)]]
        epoch = shard.context.epoch

        def appended(error: Errors, _: int) -> None:
            if self.owned.by_partition.get(shard.context.partition) is not shard:
                return
            for each, dead in dying:
                if error is NONE and each.pending is DEAD and shard.context.epoch == epoch:
                    del shard.transactions[each.transactional_id]
                    self.runtime.out.append(_expired(each, dead, epoch))
                elif error is NONE or self._rules.may_expire_again():
                    each.pending = None

        self._append(shard, tuple(records), self.config.request_timeout_ms, appended, now)
        return expired[len(records) :]


def _expired(metadata: TransactionMetadata, dead: TxnTransitMetadata, epoch: int) -> Any:
    return StateChanged(
        metadata.transactional_id,
        dead.producer_id,
        dead.producer_epoch,
        metadata.state.value,
        DEAD.value,
        (),
        dead.txn_timeout_ms,
        epoch,
        "expired",
    )
