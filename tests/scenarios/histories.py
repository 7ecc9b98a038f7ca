"""A History of facts that are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkasim.analysis.judging.history.footing import Footing
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.source import Loss, PartitionKey
from tests.scenarios.fact_makers import FakeTrace


def history_of(
    trace: FakeTrace, losses: Callable[[PartitionKey], Sequence[Loss]] = lambda _key: ()
) -> History:
    """Return a History with these losses, instead of those that its facts would show."""
    history = History(trace, lambda _topic: False)
    history.losses = losses  # type: ignore[method-assign, assignment]
    history.footing = Footing(trace, losses)
    return history
