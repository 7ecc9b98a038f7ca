"""The audit's check: does any window not add up?

An auditing group has counted what it got of each producer and window, and has read the producer's
own count (running/outside/auditing.py). A window without a monitoring event is not judged: its
producer has died with its counts.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import facts
from kafkasim.scenarios.judging.delivery import NOWHERE, Anomaly
from kafkasim.scenarios.judging.source import FactSource

Window = tuple[str, str, str, int]
"""Group, topic, source, number of the window."""


class Audit:
    """Follows one run; :meth:`finish` returns an anomaly for each group and kind of mismatch.

    ``legal_loss()`` says why the brokers may have lost records in this run, or "".
    """

    def __init__(self, trace: FactSource, legal_loss: Callable[[], str]) -> None:
        self._legal_loss = legal_loss
        self._published: dict[Window, int] = {}
        self._counted: dict[Window, int] = {}
        trace.subscribe(facts.AuditPublished, self._on_published)
        trace.subscribe(facts.AuditCounted, self._on_counted)

    def _on_published(self, _seq: int, _t: int, _node: str, fact: facts.AuditPublished) -> None:
        self._published[fact.group, fact.topic, fact.source, fact.window] = fact.records

    def _on_counted(self, _seq: int, _t: int, _node: str, fact: facts.AuditCounted) -> None:
        window = (fact.group, fact.topic, fact.source, fact.window)
        self._counted[window] = self._counted.get(window, 0) + fact.records

    def finish(self) -> list[Anomaly]:
        """Return the anomalies of the run, sorted by name and group."""
        odd: dict[tuple[str, str], list[Window]] = {}
        for window, published in sorted(self._published.items()):
            counted = self._counted.get(window, 0)
            if counted != published:
                name = "audit-missing" if counted < published else "audit-surplus"
                odd.setdefault((name, window[0]), []).append(window)
        excuse = self._legal_loss() if odd else ""
        return [
            Anomaly(name, *NOWHERE, len(windows), self._told(windows[0]), excuse, group=group)
            for (name, group), windows in sorted(odd.items())
        ]

    def _told(self, window: Window) -> str:
        group, topic, source, number = window
        return (
            f"group {group} counted {self._counted.get(window, 0)} records of window {number} of"
            f" {source} in {topic}, which says {self._published[window]}"
        )
