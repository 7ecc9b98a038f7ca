"""Where judges get their facts from, and how they ask which losses are excused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

PartitionKey = tuple[str, int]
"""Topic id and partition number."""

Excuse = Callable[[PartitionKey], str]
"""Return why a loss in a partition is outside what its claim covers, or "" if nothing excuses it.

An excuse turns a violation or an anomaly into an expected one (KAFKA.md, 0.1)."""

Handler = Callable[[int, int, str, Any], None]
"""``handler(seq, t_us, node, fact)``: row number, simulated time in µs, host, fact."""


class FactSource(Protocol):
    """The trace, as judges see it."""

    def subscribe(self, fact_type: type, callback: Handler) -> None:
        """Call ``callback`` for every later fact of a type."""

    def unsubscribe(self, fact_type: type, callback: Handler) -> None:
        """Stop calling ``callback``; one that is not subscribed is not an error."""
