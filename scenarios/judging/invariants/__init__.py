"""Online invariants (section 0 of the facts): they see every host and judge while the run goes on.

ACKED, MATCH, ISRDATA, HWMONO, MINISR, NODUP (logs.py); META, ISRELIG, ONELEADER (metadata.py, zookeeper.py);
STABLEREAD, EXCL, OFFSET (clients.py); LOGORDER, EPOCHCACHE, PIDSTATE, ORDER (final.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import facts
from kafkasim.scenarios.judging.invariants.base import Cluster, Key, View, Violation
from kafkasim.scenarios.judging.invariants.clients import Clients
from kafkasim.scenarios.judging.invariants.final import check_log, check_producer_state
from kafkasim.scenarios.judging.invariants.logs import Logs
from kafkasim.scenarios.judging.invariants.metadata import Metadata
from kafkasim.scenarios.judging.invariants.zookeeper import ZooKeeperWrites

INVARIANTS = (
    "ACKED", "MATCH", "ISRDATA", "ISRELIG", "ONELEADER", "STABLEREAD", "HWMONO", "MINISR",
    "NODUP", "ORDER", "EXCL", "OFFSET", "META", "LOGORDER", "EPOCHCACHE", "PIDSTATE",
)  # fmt: skip


class Invariants:
    """All invariants of one run, subscribed to its trace."""

    def __init__(self, trace: Any, view: View, forgive: Callable[[Key], str]) -> None:
        self.cluster = Cluster(trace, view, forgive)
        self._logs = Logs(self.cluster)
        self._metadata = Metadata(self.cluster)
        self._zookeeper = ZooKeeperWrites(self.cluster)
        self.clients = Clients(self.cluster)
        trace.subscribe(facts.FinalReplica, self._on_final)

    @property
    def violations(self) -> list[Violation]:
        """The violations so far, in order."""
        return self.cluster.violations

    def finish(self) -> list[Violation]:
        """Judge what can only be judged at the end, and return all violations."""
        self._metadata.finish()
        return self.cluster.violations

    def _on_final(self, seq: int, t_us: int, node: str, fact: facts.FinalReplica) -> None:
        check_log(self.cluster, seq, t_us, node, fact)
        log = self.cluster.view(node, fact.topic_id, fact.partition)
        if log is not None:
            key = (fact.topic_id, fact.partition)
            check_producer_state(self.cluster, seq, t_us, node, key, log)


__all__ = ["INVARIANTS", "Invariants", "Violation"]
