"""All invariants of one run (KAFKA.md, 0), subscribed to its trace.

ACKED, MATCH, ISRDATA, HWMONO, MINISR and NODUP are in logs.py, LATEST and HORIZON in cleaned; META,
ISRELIG, ONELEADER and READISR in metadata.py and zookeeper.py; STABLEREAD, EXCL and OFFSET in
clients.py, EXCL of old consumers and changed-generation in groups; LOGORDER, EPOCHCACHE, PIDSTATE
and ORDER in final.py. The judges of needless harm are in ``judging/harm``.
"""

from __future__ import annotations

from kafkasim.analysis.judging.consumer_groups import ConsumerGroups
from kafkasim.analysis.judging.copies.stale_replies import StaleReplies
from kafkasim.analysis.judging.copies.uncopied import Uncopied
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.groups import Groups
from kafkasim.analysis.judging.harm.judges import HARM, Harm
from kafkasim.analysis.judging.invariants.cleaned.latest import Cleanings
from kafkasim.analysis.judging.invariants.clients import Clients
from kafkasim.analysis.judging.invariants.final import (
    JumpingAppends,
    WallClocks,
    check_log,
    check_producer_state,
    may_know_nobody,
)
from kafkasim.analysis.judging.invariants.groups.generations import Generations
from kafkasim.analysis.judging.invariants.groups.owners import Owners
from kafkasim.analysis.judging.invariants.logs import Logs
from kafkasim.analysis.judging.invariants.metadata import Metadata, ReadReplicas
from kafkasim.analysis.judging.invariants.traced import LogView, TracedCluster
from kafkasim.analysis.judging.invariants.zookeeper import ZooKeeperWrites
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.handover import Handovers
from kafkasim.analysis.judging.source import AllowsUnclean, BrokerLimits, Excuse, Loss, PartitionKey
from kafkasim.model import facts

INVARIANTS = (
    "ACKED", "MATCH", "ISRDATA", "ISRELIG", "ONELEADER", "READISR", "STABLEREAD", "HWMONO",
    "MINISR", "NODUP", "ORDER", "LATEST", "HORIZON", "EXCL", "OFFSET", "META", "LOGORDER",
    "EPOCHCACHE", "PIDSTATE", *HARM,
    "needless-rebalance", "long-rebalance", "needless-eviction", "vanished-offset",
    "stale-coordinator", "early-handover", "stale-commit", "changed-generation",
)  # fmt: skip


class Invariants:
    """All invariants of one run, subscribed to its trace."""

    def __init__(
        self,
        trace: FactSource,
        view: LogView,
        excuse: Excuse,
        allows_unclean: AllowsUnclean,
        limits: BrokerLimits,
    ) -> None:
        self.cluster = TracedCluster(trace, view, excuse, allows_unclean)
        self._clocks = WallClocks(trace)
        self._jumps = JumpingAppends(trace, self._clocks)
        self._stale = StaleReplies(trace)
        self._forgotten: dict[tuple[str, PartitionKey], int] = {}
        self._reloaded: dict[tuple[str, PartitionKey], int] = {}
        """By node and partition: where its log ended when it was truncated and knew nobody"""
        self._loaded: dict[tuple[str, PartitionKey], int] = {}  # up to where it was loaded
        self.uncopied = Uncopied(trace, lambda _topic_id: True)  # from the first transaction on
        trace.subscribe(facts.TransactionBegun, self._on_begun)
        self._logs = Logs(self.cluster, limits.producer_us)
        Cleanings(self.cluster)
        self._metadata = Metadata(self.cluster)
        ReadReplicas(self.cluster)
        self._zookeeper = ZooKeeperWrites(self.cluster)
        self.clients = Clients(self.cluster, limits.retention_us)
        Handovers(self.cluster)
        Generations(self.cluster)
        self.owners = Owners(self.cluster)
        Harm(self.cluster, limits)
        consumer_groups = ConsumerGroups(self.cluster, limits)
        self._groups = Groups(self.cluster, limits, consumer_groups.has)
        trace.subscribe(facts.FinalReplica, self._on_final)
        trace.subscribe(facts.Truncated, self._on_rebuilt)
        trace.subscribe(facts.LogLoaded, self._on_rebuilt)

    @property
    def violations(self) -> list[Finding]:
        """The violations so far, in order."""
        return self.cluster.violations

    def losses(self, key: PartitionKey) -> list[Loss]:
        """Return what a partition has legally lost, the earliest loss first."""
        return self.cluster.losses(key)

    def reopened(self) -> list[PartitionKey]:
        """Return the partitions with a leader that lost records and went on in its old epoch."""
        return [key for key, state in self.cluster.partitions.items() if state.reopened]

    def group_key(self, group: str) -> PartitionKey:
        """Return the partition of the offsets topic that holds a group's commits."""
        return self.cluster.group_key(group)

    def finish(self) -> list[Finding]:
        """Judge what can only be judged at the end, and return all violations."""
        self._metadata.finish()
        self._groups.finish()
        return self.cluster.violations

    def _on_begun(self, _seq: int, _t: int, _node: str, _fact: facts.TransactionBegun) -> None:
        self.uncopied.follow()

    def _on_final(self, seq: int, t_us: int, node: str, fact: facts.FinalReplica) -> None:
        check_log(self.cluster, seq, t_us, node, fact, self._jumps, self._stale)
        self._check_producers(seq, t_us, node, fact)

    def _on_rebuilt(
        self, seq: int, t_us: int, node: str, fact: facts.Truncated | facts.LogLoaded
    ) -> None:
        """A log that has taken its producers from a snapshot answers retries with them at once."""
        self._check_producers(seq, t_us, node, fact)

    def _check_producers(
        self,
        seq: int,
        t_us: int,
        node: str,
        fact: facts.FinalReplica | facts.Truncated | facts.LogLoaded,
    ) -> None:
        log = self.cluster.view(node, fact.topic_id, fact.partition)
        if log is not None:
            key = (fact.topic_id, fact.partition)
            latest_ms = self._clocks.latest_ms(node, t_us)
            if isinstance(fact, facts.LogLoaded):
                self._loaded[node, key] = fact.log_end_offset
            elif isinstance(fact, facts.Truncated) and not log.producers.entries:
                state, loaded = self.cluster.partition(*key), self._loaded.get((node, key), 0)
                ends = [each.end for each in state.losses]
                if fact.offset < max(loaded, state.exposed, *ends):
                    self._forgotten[node, key] = log.log_end_offset
            elif isinstance(fact, facts.Truncated) and may_know_nobody(log, latest_ms):
                self._reloaded[node, key] = log.log_end_offset
            forgotten = self._forgotten.get((node, key), 0)
            reloaded = self._reloaded.get((node, key), 0)
            missed = self.uncopied.by(node, key)
            check_producer_state(
                self.cluster, seq, t_us, node, key, log, latest_ms, forgotten, missed, reloaded
            )
