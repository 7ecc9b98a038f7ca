"""A History of facts that are written by hand, and the promises about what clients see of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from kafkasim.analysis.judging.applications import ApplicationFailures
from kafkasim.analysis.judging.commits import CommittedOffsets
from kafkasim.analysis.judging.delivery import LostWrites, Repeated, Unseen
from kafkasim.analysis.judging.finding import Finding, grouped
from kafkasim.analysis.judging.history.footing import Footing
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.readers import Readers
from kafkasim.analysis.judging.reading import ReadingOrder
from kafkasim.analysis.judging.sends import SendOrder
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


def counted(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first finding of each kind, with the count of all."""
    return [replace(some[0], count=sum(each.count for each in some)) for some in grouped(findings)]


class Delivery:
    """The promises about delivery together."""

    def __init__(self, trace: FakeTrace, history: History) -> None:
        readers = Readers(trace)
        self._unseen = Unseen(trace, history, readers)
        self._promises = (
            LostWrites(trace, history),
            self._unseen,
            Repeated(trace, history, readers),
            SendOrder(trace, history),
            ReadingOrder(trace, history, readers),
            CommittedOffsets(trace, history, readers),
            ApplicationFailures(trace, history),
        )

    def learn_stall(self, positions: Mapping[tuple[str, PartitionKey], int], reason: str) -> None:
        """Take where groups stand in a stalled run, and why."""
        self._unseen.learn_stall(positions, reason)

    def finish(self) -> list[Finding]:
        """Return the first finding of each kind, with the count of all."""
        return counted([each for promise in self._promises for each in promise.finish()])
