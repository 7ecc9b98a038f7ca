"""The transaction coordinator of a broker (TransactionCoordinator).

A broker is the coordinator of every transactional id whose partition of ``__transaction_state`` it
leads. Its requests run on the request handlers' threads, as in Kafka. Kafka locks each id
meanwhile; here a handler runs to completion, so it needs no lock. The thread that raises the high
watermark completes the operations that waited for it. Loading, timeouts and expiry run on lane
``transaction`` (the coordinator's scheduler), markers on lane ``txn-marker-sender``.

Left out: two-phase commit (KIP-939), metrics, and the check that the number of partitions of
``__transaction_state`` is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.log import CoordinatorLog
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.coordinator.shards import OwnedShards
from kafkasim.model.effects import Exit, Process
from kafkasim.model.errors import Errors
from kafkasim.model.facts import TransactionsLoaded
from kafkasim.model.records import TRANSACTION_STATE_TOPIC
from kafkasim.model.transaction.markers.channel_manager import TransactionMarkerChannelManager
from kafkasim.model.transaction.markers.ports import MarkerDestinations
from kafkasim.model.transaction.metadata import TransactionMetadata
from kafkasim.model.transaction.requests.add_partitions import AddPartitions
from kafkasim.model.transaction.requests.end_transaction import EndTransaction, ProducerIdManager
from kafkasim.model.transaction.requests.init_producer_id import InitProducerId
from kafkasim.model.transaction.requests.queries import TransactionQueries
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.shard import TransactionShard
from kafkasim.model.transaction.state_manager import TransactionStateManager
from kafkasim.model.transaction.states import DECIDED

LANE = "transaction"
ABORT_SCAN = "transaction-abort"
EXPIRY_SCAN = "transactional-id-expiration"


class TransactionCoordinator:
    """The parts that serve transactions, and the partitions that they serve.

    ``transaction_version()`` is the finalized level of that feature. ``epochs_used`` is the history
    of transactional ids (:class:`InitProducerId`).
    """

    def __init__(
        self,
        process: Process,
        config: BrokerConfig,
        rules: TransactionRules,
        log: CoordinatorLog,
        producer_ids: ProducerIdManager,
        destinations: MarkerDestinations,
        transaction_version: Callable[[], int],
        epochs_used: Mapping[str, int],
    ) -> None:
        self.process = process
        self.config = config
        self.rules = rules
        runtime = CoordinatorRuntime(process, LANE, log, config.request_timeout_ms)
        self.owned: OwnedShards[TransactionShard] = OwnedShards(
            runtime,
            TRANSACTION_STATE_TOPIC,
            TransactionShard,
            self._on_loaded,
            _ignore_unloaded,
            config.transaction_state_log_load_buffer_size,
            rules.load_continues,
            TransactionsLoaded,
        )
        self.runtime = runtime
        self.manager = TransactionStateManager(
            runtime, self.owned, config, rules, transaction_version
        )
        self.markers = TransactionMarkerChannelManager(
            self.manager,
            rules,
            destinations,
            config.request_timeout_ms,
            self._halt,
        )
        self.ending = EndTransaction(self.manager, self.markers, producer_ids, rules)
        self.initialization = InitProducerId(
            self.manager, self.ending, producer_ids, rules, epochs_used
        )
        self.partitions = AddPartitions(self.manager, rules)
        self.queries = TransactionQueries(self.manager)
        self._failed_loads: dict[int, None] = {}  # partitions that are loading for ever (B38)

    def _halt(self, reason: str) -> None:
        self.process.out.append(Exit(reason, False))

    # -------------------------------------------------------------------------- partitions

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` that holds an id."""
        return self.manager.partition_for(transactional_id)

    def on_elected(self, partition: int, leader_epoch: int, now: int) -> None:
        """Load a partition on lane ``transaction``. Callable on any lane.

        A partition that is elected again under a higher epoch is loaded again. Appends of the old
        epoch stay in purgatory: what the high watermark passes afterwards is NOT_COORDINATOR.
        """
        shard = self.owned.by_partition.get(partition)
        if shard is not None and shard.context.epoch < leader_epoch:
            if shard.context.is_active and not self.rules.load_replaces_state():
                shard.context.is_active = False
                self._failed_loads[partition] = None
            if partition in self._failed_loads:
                return
            self.owned.on_resigned(partition, leader_epoch, now)
        self.markers.remove_markers_for_txn_partition(partition)
        self.owned.on_elected(partition, leader_epoch, now)
        if shard is not None:
            self.manager.take_over(shard, self.owned.by_partition[partition])

    def on_resigned(self, partition: int, leader_epoch: int | None, now: int) -> None:
        """Give a partition up: a higher epoch, or for good (None). Callable on any lane."""
        if partition in self._failed_loads:
            return
        if leader_epoch is None or self.rules.resigns_when_deposed():
            self._give_up(partition, leader_epoch, now)
            self.markers.remove_markers_for_txn_partition(partition)

    def _give_up(self, partition: int, leader_epoch: int | None, now: int) -> None:
        shard = self.owned.by_partition.get(partition)
        self.owned.on_resigned(partition, leader_epoch, now)
        if shard is not None and self.owned.by_partition.get(partition) is not shard:
            self.manager.fail_appends(shard, Errors.NOT_COORDINATOR, now)

    def on_high_watermark(self, partition: int, offset: int, now: int) -> None:
        """Complete what the partition's high watermark has passed."""
        shard = self.owned.by_partition.get(partition)
        if shard is not None:
            self.manager.on_high_watermark(shard, offset, now)

    def _on_loaded(self, shard: TransactionShard, now: int) -> None:
        """Send the markers of every decision that was loaded; scan for timeouts from now on."""
        self._arm_scans(now)
        if not self.rules.resends_markers_at_load():
            return
        now_ms = self.runtime.wall_ms(now)
        decided = [each for each in shard.transactions.values() if each.state in DECIDED]
        completions = [(each, each.prepare_complete(now_ms)) for each in decided]
        for metadata, completion in completions:
            self.markers.add_txn_markers_to_send(shard.context.epoch, metadata, completion, now)

    # ------------------------------------------------------------------------------- scans

    def _arm_scans(self, now: int) -> None:
        """Scan at the multiples of each interval since the start, as long as there are ids."""
        config = self.config
        self._arm(
            ABORT_SCAN,
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            self._abort_timed_out_transactions,
            now,
        )
        self._arm(
            EXPIRY_SCAN,
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
            self.manager.expire,
            now,
        )

    def _arm(self, name: str, interval_ms: int, scan: Callable[[int], None], now: int) -> None:
        started, interval_us = self.process.started_us, interval_ms * 1000

        def on_time(at: int) -> None:
            if self.owned.by_partition:
                self._arm(name, interval_ms, scan, at)
                scan(at)

        if not self.process.timers.armed(name):
            next_us = started + ((now - started) // interval_us + 1) * interval_us
            self.process.timers.arm(name, next_us, LANE, on_time)

    def _abort_timed_out_transactions(self, now: int) -> None:
        for metadata in self.manager.timed_out(self.runtime.wall_ms(now)):
            epoch: int | None = metadata.producer_epoch
            if self.rules.timeout_fences_producer():
                epoch = self.rules.fencing_epoch(
                    metadata.producer_epoch, metadata.has_failed_epoch_fence
                )
            if epoch is None:
                self.manager.tell_exhausted(metadata, "timeout")
                return  # the exception ends this scan
            if not self._abort_timed_out(metadata, epoch, now):
                return

    def _abort_timed_out(self, metadata: TransactionMetadata, epoch: int, now: int) -> bool:
        """Abort a transaction, and fence its producer (abortTimedOutTransactions).

        Return False if the epochs of its producer id are exhausted: the exception ends the scan.
        """
        transit = metadata.prepare_fence_producer_epoch(epoch)
        refused: list[Errors] = []

        def begun(error: Errors, _producer_id: int, _epoch: int, _now: int) -> None:
            """Note the error; the scan comes again."""
            refused.append(error)

        self.ending.abort_fenced(metadata.transactional_id, transit, "timeout", begun, now)
        return refused != [Errors.UNKNOWN_SERVER_ERROR]


def _ignore_unloaded(_shard: TransactionShard) -> None:
    """Leave the shard alone: :meth:`TransactionCoordinator.on_resigned` fails its appends."""
