"""A schedule of transactions on the model: an ordinary run, and what its coordinators wrote."""

from __future__ import annotations

from typing import Any

from kafkasim.model.records import NO_PRODUCER_ID, TRANSACTION_STATE_TOPIC, RecordBatch
from tests.fidelity.playing.simulated import SimulatedClientPlay
from tests.fidelity.playing.transactions.history import TransactionHistory
from tests.fidelity.playing.transactions.log import Entry, Logged, Written


class SimulatedTransactionPlay(SimulatedClientPlay):
    """One schedule on the model, with ``__transaction_state`` and all other partitions."""

    def _told(self) -> list[str]:
        log = self._replica(TRANSACTION_STATE_TOPIC, 0)
        entries = [
            Entry(batch.leader_epoch, record.key.transactional_id, _logged(record.value))
            for batch in log.batches_from(0)
            if not batch.control
            for record in batch.records
        ]
        created = sorted(self.run.progress.topics.values(), key=lambda each: each.topic)
        data = {
            (each.topic, number): [
                _written(batch) for batch in self._replica(each.topic, number).batches_from(0)
            ]
            for each in created
            if not each.topic.startswith("__")
            for number in range(each.partitions)
        }
        return TransactionHistory().lines(entries, data)


def _logged(found: Any) -> Logged | None:
    """Return the value of a record; the model writes no other producer ids, as 4.0 does not."""
    if found is None:
        return None
    partitions = sorted((tp.topic, tp.partition) for tp in found.transaction_partitions or ())
    return Logged(
        found.producer_id,
        NO_PRODUCER_ID,
        NO_PRODUCER_ID,
        found.producer_epoch,
        found.transaction_timeout_ms,
        str(found.transaction_status),
        tuple(partitions),
        found.client_transaction_version,
    )


def _written(batch: RecordBatch) -> Written:
    if not batch.control:
        return Written(batch.producer_id, batch.producer_epoch, "", -1)
    marker = batch.records[0].value
    word = "COMMIT" if marker.committed else "ABORT"
    return Written(batch.producer_id, batch.producer_epoch, word, marker.coordinator_epoch)
