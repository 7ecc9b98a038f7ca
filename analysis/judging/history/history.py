"""History: what has happened so far, by topic, partition and host; each fact is followed once."""

from __future__ import annotations

from kafkasim.analysis.judging.history.budget import Budget
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.history.footing import Footing
from kafkasim.analysis.judging.history.hosts import Hosts
from kafkasim.analysis.judging.history.logs import PartitionHistory
from kafkasim.analysis.judging.history.metadata_loss import MetadataLoss
from kafkasim.analysis.judging.history.partitions import Partitions
from kafkasim.analysis.judging.history.sends import SendHistory
from kafkasim.analysis.judging.history.topics import Topics, offsets_partition
from kafkasim.analysis.judging.history.transactions import TransactionHistory
from kafkasim.analysis.judging.holes import EnteredHoles
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import (
    LAST_REPLICA,
    UNCLEAN,
    AllowsUnclean,
    Excuse,
    Loss,
    PartitionKey,
)
from kafkasim.model import facts


class History:
    """The timelines of one run; it follows each fact before the promises do."""

    def __init__(
        self, trace: FactSource, allows_unclean: AllowsUnclean, excuse: Excuse | None = None
    ) -> None:
        """``excuse`` replaces the no-loss budget, in tests."""
        self.budget = Budget()
        self.hosts = Hosts()
        self.metadata = MetadataLoss()
        self._topics = Topics()
        self._partitions = Partitions(self._topics, excuse or self.excuse, allows_unclean)
        for part in (self.budget, self.hosts, self.metadata, self._topics, self._partitions):
            follow(trace, part)
        self.contents = Contents(trace)
        self.transactions = TransactionHistory(trace)
        self.sends = SendHistory(trace, self._topics.deleted)
        self.footing = Footing(trace, self.losses)
        self.holes = EnteredHoles(trace)

    @property
    def topics(self) -> dict[str, facts.TopicCreated]:
        """All topics by id, also the deleted ones."""
        return self._topics.created

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic, of the first one if it was created anew, "" if unknown."""
        return self._topics.id_of(topic)

    @property
    def deleted_topics(self) -> dict[str, None]:
        """The ids of the topics that were deleted, or are about to be."""
        return self._topics.deleted

    @property
    def partitions(self) -> dict[PartitionKey, PartitionHistory]:
        """The timeline of each partition that a fact has named."""
        return self._partitions.all

    @property
    def zookeeper(self) -> bool:
        """Whether a ZooKeeper controller leads."""
        return self._partitions.zookeeper

    def partition(self, topic_id: str, partition: int) -> PartitionHistory:
        """Return the timeline of a partition."""
        return self._partitions.of(topic_id, partition)

    def excuse(self, key: PartitionKey, node: str = "") -> str:
        """Return why a loss in a partition is legal, or "" (KAFKA.md, 0.1).

        With ``node``, the loss is this broker's: it lost data and has not left the ISR since.
        """
        outside = key in self.budget.outside and (not node or self.budget.has_lost(key, node))
        return LAST_REPLICA if outside else ""

    def losses(self, key: PartitionKey) -> list[Loss]:
        """Return what a partition has legally lost, the earliest loss first."""
        state = self.partitions.get(key)
        return state.losses if state is not None else []

    def lost_between(self, key: PartitionKey, promise: int, broken: int) -> str:
        """Return why a partition lost records between two rows of the trace, or "".

        What an unclean election costs is not asked for: a scenario permits that itself.
        """
        found = [
            loss.reason
            for loss in self.losses(key)
            if loss.reason != UNCLEAN and promise < loss.seq < broken
        ]
        return found[0] if found else ""

    def reopened(self) -> list[PartitionKey]:
        """Return the partitions with a leader that lost records and went on in its old epoch."""
        return [key for key, state in self.partitions.items() if state.reopened]

    def group_key(self, group: str) -> PartitionKey:
        """Return the partition of the offsets topic that holds a group's commits."""
        return offsets_partition(group, self.topics)
