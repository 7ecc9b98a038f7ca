"""What the transaction coordinators of real Kafka have written, as text."""

from __future__ import annotations

from kafkasim.model.records import TRANSACTION_STATE_TOPIC
from tests.fidelity.playing.clients import StoredLogs
from tests.fidelity.playing.transactions.history import TransactionHistory
from tests.fidelity.playing.transactions.log import TransactionLogReader, written


def transaction_history(logs: StoredLogs) -> list[str]:
    """Return the text of ``__transaction_state``, and of all other partitions."""
    entries = TransactionLogReader(logs.libs).entries(logs.segment(TRANSACTION_STATE_TOPIC, 0))
    data = {
        (topic, number): written(logs.segment(topic, number))
        for topic in sorted(logs.topics.values())
        if not topic.startswith("__")
        for number in logs.numbers(topic)
    }
    return TransactionHistory().lines(entries, data)
