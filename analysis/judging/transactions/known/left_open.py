"""Transactions that are open when a run ends, where Kafka would not end them either.

The partition is a line of what the run misses ("has an open transaction"), and the stall has an
excuse. So the judge of hanging transactions is told of the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.analysis.judging.source import PartitionKey


class LeftOpen:
    """What the run misses of the ends of transactions."""

    def __init__(self) -> None:
        self._first: Mapping[PartitionKey, int] = {}
        self._reason = ""

    def learn(self, first: Mapping[PartitionKey, int], reason: str) -> None:
        """Take the first open offset by partition, and the stall's excuse, "" for none."""
        self._first, self._reason = first, reason

    def excuse(self, key: PartitionKey, offset: int) -> str:
        """Return why nobody ends the transaction of the record at an offset, or ""."""
        return self._reason if self._first.get(key, offset + 1) <= offset else ""
