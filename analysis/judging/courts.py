"""The courts of a run: one for each cluster; live, or over a stored run's facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from kafkasim.analysis.judging.cluster_facts import ClusterFacts
from kafkasim.analysis.judging.court import Court
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.mirrors import Mirrored, MirrorSettings
from kafkasim.analysis.judging.promise import Handler
from kafkasim.analysis.judging.settings import settings_of
from kafkasim.analysis.judging.verdict import PERMITTED, Verdict

CLUSTERS = "clusters"
"""Where ``judged_by`` of a manifest has the settings of several clusters, by name."""


class Courts:
    """The courts of a run by cluster; the only one of a run without names is "".

    ``mirrored`` judges the mirrors between clusters, and ``permits`` are the findings about them
    that the scenario allows.
    """

    def __init__(
        self, courts: Mapping[str, Court], mirrored: Mirrored, permits: Sequence[str]
    ) -> None:
        self._courts = courts
        self._mirrored = mirrored
        self._permits = tuple(permits)

    def verdict(self, ready_us: int) -> Verdict:
        """Return the verdict on a run that was ready at ``ready_us``, with all findings."""
        own = [
            _of(name, found)
            for name, court in self._courts.items()
            for found in court.verdict(ready_us).findings
        ]
        return Verdict([*own, *self._between()])

    def verdict_on(self, cluster: str, ready_us: int) -> Verdict:
        """Return the verdict on one cluster, with what is found of mirrors of its topics."""
        court = self._courts[cluster]
        between = [found for found in self._between() if found.topic_id in court.topics]
        return Verdict([*court.verdict(ready_us).findings, *between])

    def _between(self) -> list[Finding]:
        return [
            replace(found, expected_by=PERMITTED) if found.name in self._permits else found
            for found in self._mirrored.finish()
        ]

    def of(self, cluster: str) -> Court:
        """Return the court of a cluster."""
        return self._courts[cluster]

    @property
    def topics(self) -> dict[str, str]:
        """The names of topics by topic id, those of a named cluster as ``cluster:topic``."""
        return {
            topic_id: f"{name}:{topic}" if name else topic
            for name, court in self._courts.items()
            for topic_id, topic in court.topics.items()
        }

    @property
    def seen(self) -> dict[str, int]:
        """When each observation was first made, in µs; of a named cluster ``cluster:what``."""
        return {
            f"{name}:{what}" if name else what: t_us
            for name, court in self._courts.items()
            for what, t_us in court.observer.seen.items()
        }

    @property
    def judged_by(self) -> dict[str, Any]:
        """The settings of all courts, as a manifest holds them."""
        settings = {name: asdict(court.settings) for name, court in self._courts.items()}
        mirrors = [asdict(each) for each in self._mirrored.mirrors]
        several = {CLUSTERS: settings, "mirrors": mirrors, "permits": [*self._permits]}
        return settings.get("", several)


def _of(cluster: str, finding: Finding) -> Finding:
    """Return a finding with its cluster, unless its topic names that already."""
    if not cluster or finding.topic_id:
        return finding
    return replace(finding, text=f"cluster {cluster}: {finding.text}")


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
    courts = courts_of(manifest, trace)
    trace.feed(rows)
    return courts.verdict(manifest["ready_us"]).findings


def courts_of(manifest: Mapping[str, Any], trace: StoredTrace) -> Courts:
    """Return the courts of a stored run, which hear the facts that ``trace`` is fed."""
    judged_by = manifest["judged_by"]
    mirrors = [MirrorSettings(**each) for each in judged_by.get("mirrors", ())]
    courts = {
        name: Court(ClusterFacts(trace, name) if name else trace, settings_of(settings))
        for name, settings in judged_by.get(CLUSTERS, {"": judged_by}).items()
    }
    permits = judged_by["permits"] if CLUSTERS in judged_by else ()
    return Courts(courts, Mirrored(trace, mirrors), permits)
