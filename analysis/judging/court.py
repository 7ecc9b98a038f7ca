"""The court: which judges follow a cluster's facts, in which order.

The History takes each fact first. A judge that reads another one's state follows behind it.
"""

from __future__ import annotations

from typing import Protocol

from kafkasim.analysis.judging.applications import ApplicationFailures
from kafkasim.analysis.judging.atomicity import Atomicity, NeedlessEpochs
from kafkasim.analysis.judging.commits import CommitOrder, CommittedOffsets, Handovers
from kafkasim.analysis.judging.delivery import LostWrites, Repeated, Unseen
from kafkasim.analysis.judging.finding import Finding, summed
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.readers import Readers
from kafkasim.analysis.judging.inputs import Inputs
from kafkasim.analysis.judging.invariants.missed_deletions import MissedDeletions
from kafkasim.analysis.judging.invariants.online import Invariants
from kafkasim.analysis.judging.observer import Observer
from kafkasim.analysis.judging.outputs import Outputs
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.reading import LostToRetention, NeedlessResets, ReadingOrder
from kafkasim.analysis.judging.results import Audit, StoredResults
from kafkasim.analysis.judging.sends import KeyOrder, SendOrder, StoredOnce
from kafkasim.analysis.judging.sent_outputs import SentOutputs
from kafkasim.analysis.judging.settings import Settings
from kafkasim.analysis.judging.shares import ShareDeliveries
from kafkasim.analysis.judging.verdict import Evidence, Verdict, judge
from kafkasim.analysis.judging.waits import Standstill


class Judge(Protocol):
    """A promise that has followed the facts."""

    def finish(self) -> list[Finding]:
        """Return its findings."""
        ...


class Court:
    """All judges of one cluster."""

    def __init__(self, trace: FactSource, settings: Settings) -> None:
        self.settings = settings
        self.history = History(trace, settings.allows_unclean)
        self.progress = Progress(trace, settings.zookeeper)
        self.observer = Observer(trace, settings.hosts, settings.voters)
        self.invariants = Invariants(trace, self.history, settings)
        note, of = self.observer.note, (trace, self.history)
        self.readers = readers = Readers(trace)
        self._unseen = Unseen(*of, readers)
        self._atomicity = Atomicity(*of)
        contents = self.history.contents
        inputs = Inputs(*of)
        self.standstill = Standstill(trace, self.history, self.progress, settings)
        self._judges: tuple[Judge, ...] = (
            LostWrites(*of),
            self._unseen,
            Repeated(*of, readers),
            SendOrder(*of),
            StoredOnce(*of),
            KeyOrder(*of),
            ReadingOrder(*of, readers),
            NeedlessResets(*of, readers, settings.own_groups),
            LostToRetention(*of, readers, note),
            CommittedOffsets(*of, readers),
            CommitOrder(*of, readers),
            Handovers(*of, readers),
            NeedlessEpochs(trace),
            self._atomicity,
            Outputs(*of, inputs),
            SentOutputs(*of, inputs, settings.outputs),
            StoredResults(*of),
            Audit(*of, settings.audited),
            MissedDeletions(trace, contents, note),
            ApplicationFailures(*of),
            ShareDeliveries(*of, settings.share_deliveries, note),
            self.standstill,
        )
        if settings.streams:
            from kafkasim.analysis.judging.streaming import StreamsOutputs

            self._judges += (StreamsOutputs(*of, settings.streams),)

    def finish(self) -> list[Finding]:
        """Return all findings."""
        excuse = self.standstill.excuse
        self._unseen.learn_stall(self.standstill.unread(), excuse)
        self._atomicity.learn_stall(self.standstill.left_open(), excuse)
        found = [finding for judge in self._judges for finding in judge.finish()]
        return [*self.invariants.finish(), *summed(found)]

    def verdict(self, ready_us: int) -> Verdict:
        """Return the verdict, with all findings, on a run that was ready at ``ready_us``."""
        evidence = Evidence(
            findings=self.finish(),
            topics=self.topics,
            seen=dict(self.observer.seen),
            faults_end_us=ready_us + self.settings.faults_us,
        )
        return judge(evidence, self.settings)

    @property
    def topics(self) -> dict[str, str]:
        """The names of topics by topic id."""
        return {topic_id: fact.topic for topic_id, fact in self.progress.topics.items()}
