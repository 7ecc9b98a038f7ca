"""Followers whose fetcher has given a partition up, and why Kafka's would stay so, too.

A replica fetcher that cannot append what it fetched marks the partition as failed
(AbstractFetcherThread.markPartitionFailed) and fetches it again only with the next leader epoch, or
after a restart of its broker.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

FORGOTTEN = "forgotten-log-start"
WITHIN = "log-start-within-a-batch"


class FailedReplicas:
    """Follows the replicas that failed, and the log starts of their partitions."""

    def __init__(self, trace: FactSource) -> None:
        self._failed: dict[tuple[PartitionKey, int], tuple[int, int]] = {}
        """The replicas, as (partition, broker), with the highest log start that any replica of the
        partition had had by then, and the log start of the leader"""
        self._starts: dict[PartitionKey, int] = {}  # the highest log start of any replica so far
        self._own: dict[tuple[PartitionKey, str], int] = {}  # the log start of each replica
        self._leaders: dict[PartitionKey, tuple[int, str]] = {}  # (leader epoch, node)
        self._ends: dict[tuple[PartitionKey, int], int] = {}  # the final log ends
        self._truncated: dict[tuple[PartitionKey, int], int] = {}  # to which end, as a follower
        for kind, handler in (
            (facts.ReplicaFailed, self._on_failed),
            (facts.BecameFollower, self._on_follower),
            (facts.HostStarted, self._on_started),
            (facts.BecameLeader, self._on_leader),
            (facts.LogStart, self._on_log_start),
            (facts.LogLoaded, self._on_loaded),
            (facts.LogDeleted, self._on_deleted),
            (facts.Truncated, self._on_truncated),
            (facts.FinalReplica, self._on_final),
        ):
            trace.subscribe(kind, handler)

    def why(self, key: PartitionKey, broker: int, lost: str) -> str:
        """Return why a replica's failure is Kafka's, or "".

        - Its log diverges from the leader's within one epoch. Only lost data leads there, so
          ``lost`` must name a loss of the partition.
        - Its log ends among deleted records. After a crash the leader's log starts below them again
          (the checkpoint of log starts is written once a minute), but its LeaderEpochFileCache says
          that its epochs begin behind them. So the follower is not told to truncate there, and a
          batch that spans its log end is an UnexpectedAppendOffsetException. Where the leader's log
          starts above its end, a follower has to begin anew there, and cannot fail.
        - Its log was truncated to the leader's log start, because the leader's epochs begin there
          (LeaderEpochFileCache.truncateFromStart), and it has older records below. The log start
          lies within a batch, which the leader sends as a whole: the same exception.
        """
        if (key, broker) not in self._failed:
            return ""
        if lost:
            return lost
        end = self._ends.get((key, broker), -1)  # a failed replica's log does not change any more
        start, of_leader = self._failed[key, broker]
        if 0 < start == end == self._truncated.get((key, broker)):
            return WITHIN
        return FORGOTTEN if of_leader <= end < start and end >= 0 else ""

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.ReplicaFailed) -> None:
        key = (fact.topic_id, fact.partition)
        _, leader = self._leaders.get(key, (-1, ""))
        of_leader = self._own.get((key, leader), 0)
        self._failed[key, broker_of(node)] = (self._starts.get(key, 0), of_leader)

    def _on_leader(self, _seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        self._leaders[key] = max(self._leaders.get(key, (-1, "")), (fact.leader_epoch, node))

    def _on_follower(self, _seq: int, _t: int, node: str, fact: facts.BecameFollower) -> None:
        replica = ((fact.topic_id, fact.partition), broker_of(node))
        self._failed.pop(replica, None)
        self._truncated.pop(replica, None)

    def _on_truncated(self, _seq: int, _t: int, node: str, fact: facts.Truncated) -> None:
        self._truncated[(fact.topic_id, fact.partition), broker_of(node)] = fact.offset

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        for each in [each for each in self._failed if each[1] == broker_of(node)]:
            del self._failed[each]

    def _on_log_start(self, _seq: int, _t: int, node: str, fact: facts.LogStart) -> None:
        key = (fact.topic_id, fact.partition)
        self._starts[key] = max(self._starts.get(key, 0), fact.offset)
        self._own[key, node] = fact.offset

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        self._own[(fact.topic_id, fact.partition), node] = fact.log_start_offset

    def _on_deleted(self, _seq: int, _t: int, node: str, fact: facts.LogDeleted) -> None:
        self._own.pop(((fact.topic_id, fact.partition), node), None)

    def _on_final(self, _seq: int, _t: int, node: str, fact: facts.FinalReplica) -> None:
        self._ends[(fact.topic_id, fact.partition), broker_of(node)] = fact.log_end_offset
