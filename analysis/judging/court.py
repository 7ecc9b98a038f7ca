"""The court: which judges follow a run, in which order; live, or over a stored run's facts.

The History takes each fact first. A judge that reads another one's state follows behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkasim.analysis.judging.atomicity import Atomicity, NeedlessEpochs
from kafkasim.analysis.judging.copies.idempotence import Idempotence
from kafkasim.analysis.judging.copies.redelivery import Redeliveries
from kafkasim.analysis.judging.delivery import Delivery
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.invariants.missed_deletions import MissedDeletions
from kafkasim.analysis.judging.invariants.online import Invariants
from kafkasim.analysis.judging.observer import Observer
from kafkasim.analysis.judging.outputs import Outputs
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.promise import FactSource, Handler
from kafkasim.analysis.judging.readers.commits import CommitOrder
from kafkasim.analysis.judging.readers.key_order import KeyOrder
from kafkasim.analysis.judging.readers.overtaken import LostToRetention
from kafkasim.analysis.judging.readers.passed import Readers
from kafkasim.analysis.judging.readers.resets import NeedlessResets
from kafkasim.analysis.judging.results import Audit, StoredResults
from kafkasim.analysis.judging.settings import Settings, settings_of
from kafkasim.analysis.judging.shares.judge import Shares
from kafkasim.analysis.judging.waits import Standstill


class Court:
    """All judges of one run."""

    def __init__(self, trace: FactSource, settings: Settings) -> None:
        self.settings = settings
        self.history = History(trace, settings.allows_unclean)
        self.progress = Progress(trace, settings.zookeeper)
        self.observer = Observer(trace, settings.hosts, settings.voters)
        self.invariants = Invariants(trace, self.history, settings.limits)
        losses, note = self.history.losses, self.observer.note
        self.holes = holes = self.history.contents
        self.delivery = Delivery(trace, self.history)
        self.atomicity = Atomicity(trace, self.history)
        self.readers = readers = Readers(trace)
        self.shares = Shares(trace, losses, holes, settings.share_deliveries, note)
        self.standstill = Standstill(trace, self.history, self.progress, settings)
        self._judges = (
            self.delivery,
            NeedlessEpochs(trace),
            self.atomicity,
            Outputs(trace, self.history),
            LostToRetention(trace, readers, self.delivery, note),
            StoredResults(trace, self.history),
            NeedlessResets(trace, readers, losses, settings.own_groups),
            CommitOrder(trace, readers),
            Redeliveries(trace, readers),
            Idempotence(trace, holes),
            KeyOrder(trace, holes),
            Audit(trace, self.history, settings.audited),
            MissedDeletions(trace, holes, note),
            self.shares,
            self.standstill,
        )

    def finish(self) -> list[Finding]:
        """Return all findings."""
        excuse = self.standstill.excuse
        self.delivery.stalled.learn(self.standstill.unread(), excuse)
        self.atomicity.learn_stall(self.standstill.left_open(), excuse)
        found = self.invariants.finish()
        return [*found, *[finding for judge in self._judges for finding in judge.finish()]]


class StoredTrace:
    """A trace that was recorded before; :meth:`feed` tells its facts again."""

    def __init__(self) -> None:
        self._callbacks: dict[type, tuple[Handler, ...]] = {}

    def subscribe(self, fact_type: type, callback: Handler) -> None:
        """Call ``callback`` for every later fact of a type, after those subscribed before."""
        self._callbacks[fact_type] = (*self._callbacks.get(fact_type, ()), callback)

    def unsubscribe(self, fact_type: type, callback: Handler) -> None:
        """Stop calling ``callback``; one that is not subscribed is not an error."""
        known = self._callbacks.get(fact_type, ())
        self._callbacks[fact_type] = tuple([each for each in known if each != callback])

    def feed(self, rows: Iterable[tuple[int, int, str, Any]]) -> None:
        """Tell facts with their ``seq``, time and node, in the order of ``seq``."""
        callbacks = self._callbacks
        for seq, t_us, node, fact in rows:
            for callback in callbacks.get(type(fact), ()):
                callback(seq, t_us, node, fact)


def judge_stored(
    manifest: Mapping[str, Any], rows: Iterable[tuple[int, int, str, Any]]
) -> list[Finding]:
    """Return the findings of a stored run: those that it had when it ran, with the same code.

    Args:
        manifest: of the run.
        rows: its facts with their ``seq``, time in µs and node, in the order of ``seq``.
    """
    trace = StoredTrace()
    court = Court(trace, settings_of(manifest))
    trace.feed(rows)
    return court.finish()
