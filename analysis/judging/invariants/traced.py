"""History and findings under one name, for judges that have not become promises yet."""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.topics import coordinator_partition, offsets_partition
from kafkasim.analysis.judging.promise import FactSource

__all__ = ["TracedCluster", "coordinator_partition", "offsets_partition"]


class TracedCluster:
    """What such a judge may ask and call."""

    def __init__(self, trace: FactSource, history: History, findings: Findings) -> None:
        self.trace = trace
        self.topics = history.topics
        self.partition = history.partition
        self.losses = history.losses
        self.lost_between = history.lost_between
        self.group_key = history.group_key
        self.violated = findings.add
        self._history = history

    @property
    def zookeeper(self) -> bool:
        """Whether a ZooKeeper controller leads."""
        return self._history.zookeeper
