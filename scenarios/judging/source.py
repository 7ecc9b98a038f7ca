"""Where judges get their facts from, and how they ask which losses are excused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

PartitionKey = tuple[str, int]
"""Topic id and partition number."""

Excuse = Callable[[PartitionKey, str], str]
"""``excuse(partition, node)``: return why a node may lead without all committed records, or "".

It may if it lost data, is in the ISR since, and no other replica was left to save the records
(KAFKA.md, 0.1)."""

Lost = Callable[[PartitionKey, int], str]
"""``lost(partition, offset)``: return why the record at an offset was legally lost, or "".

The offset −1 asks whether any record of the partition was."""

DELETING = ("delete-records", "retention")
"""Reasons of a log start that say who deleted the records below it; other reasons follow these."""

Handler = Callable[[int, int, str, Any], None]
"""``handler(seq, t_us, node, fact)``: row number, simulated time in µs, host, fact."""


class FactSource(Protocol):
    """The trace, as judges see it."""

    def subscribe(self, fact_type: type, callback: Handler) -> None:
        """Call ``callback`` for every later fact of a type."""

    def unsubscribe(self, fact_type: type, callback: Handler) -> None:
        """Stop calling ``callback``; one that is not subscribed is not an error."""
