"""All promises about brokers, controllers and groups (KAFKA.md, 0) of one run."""

from __future__ import annotations

from typing import Any

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.harm import HARM, harm_promises
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.invariants.access import Access
from kafkasim.analysis.judging.invariants.cleaning import Cleanings
from kafkasim.analysis.judging.invariants.commits import Offsets, StaleCommits
from kafkasim.analysis.judging.invariants.logs import (
    EpochCache,
    LogOrder,
    NoDuplicates,
    SequenceOrder,
)
from kafkasim.analysis.judging.invariants.metadata import (
    AclEntries,
    IsrEligible,
    OneLeader,
    PartitionEpochs,
    SameMetadata,
    ZooKeeperWrites,
)
from kafkasim.analysis.judging.invariants.ownership import Exclusive, Generations, OldOwners
from kafkasim.analysis.judging.invariants.quotas import Rates
from kafkasim.analysis.judging.invariants.reads import StableReads
from kafkasim.analysis.judging.invariants.replication import (
    Acked,
    HighWatermarks,
    IsrData,
    Match,
    MinIsr,
    ReadReplicas,
)
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.settings import Settings

INVARIANTS = (
    "ACKED", "MATCH", "ISRDATA", "ISRELIG", "ONELEADER", "READISR", "STABLEREAD", "HWMONO",
    "MINISR", "NODUP", "ORDER", "LATEST", "HORIZON", "EXCL", "OFFSET", "META", "LOGORDER",
    "EPOCHCACHE", "AUTHZ", "RATE", "stale-commit", "changed-generation", *HARM,
)  # fmt: skip


class Invariants:
    """The promises, subscribed to a trace behind the History."""

    def __init__(self, trace: FactSource, history: History, settings: Settings) -> None:
        limits = settings.limits
        self.history = history
        self._findings = findings = Findings(history)
        self.old_owners = OldOwners(history, findings)
        forgets_us = limits.producer_us
        self._promises: list[Any] = [
            *[
                promise(history, findings)
                for promise in (
                    Acked, Match, IsrData, HighWatermarks, MinIsr, ReadReplicas, SameMetadata,
                    PartitionEpochs, AclEntries, IsrEligible, OneLeader, ZooKeeperWrites, LogOrder,
                    EpochCache, StableReads, Exclusive, Generations,
                )
            ],
            SequenceOrder(history, findings, forgets_us),
            NoDuplicates(history, findings, forgets_us),
            Cleanings(history, findings, trace),
            Offsets(history, findings, trace, limits.retention_us),
            StaleCommits(history, findings),
            Access(history, findings, settings),
            Rates(history, findings, settings),
            self.old_owners,
            *harm_promises(history, findings, trace, limits),
        ]  # fmt: skip
        for promise in self._promises:
            follow(trace, promise)

    def finish(self) -> list[Finding]:
        """Judge what can only be judged at the end, and return all findings."""
        for promise in self._promises:
            if hasattr(promise, "finish"):
                promise.finish()
        return self._findings.all
