"""Since when a coordinator of a consumer group awaits the SyncGroup of a classic member.

The wait begins when the member's JoinGroup is answered, and ends when its SyncGroup is answered
(GroupMetadataManager.classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup: both reach
the timers in ``appendFuture.whenComplete``). An answer waits until all that the coordinator had
written to its partition is committed, also if the request itself writes nothing
(CoordinatorRuntime.CoordinatorContext.append), and until the open batch is, which the next append
writes after group.coordinator.append.linger.ms at the latest. It fails, and reaches no timer, if
that takes offsets.commit.timeout.ms.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from kafkasim.analysis.judging.harm.truth.standstills import Standstills
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import BrokerLimits
from kafkasim.model import facts

JOIN, SYNC = "JoinGroup", "SyncGroup"

Request = tuple[str, int, int]  # its name, the trace's row, and when the coordinator got it


@dataclass(slots=True)
class _Log:
    """A partition of __consumer_offsets at its leader: (row, when, offset), in order."""

    ends: list[tuple[int, int, int]] = field(default_factory=list)  # after each append
    high_watermarks: list[tuple[int, int, int]] = field(default_factory=list)


class Syncs:
    """Knows when the coordinators have answered."""

    def __init__(self, cluster: TracedCluster, limits: BrokerLimits) -> None:
        self._cluster = cluster
        self._limits = limits
        self._logs: dict[tuple[str, str, int], _Log] = {}  # by node and partition
        self._standstills: dict[str, list[tuple[int, int]]] = {}  # host -> from when until when
        self._follows = False
        cluster.trace.subscribe(facts.MemberRequest, self._on_request)
        Standstills(cluster.trace, self._on_standstill)

    def awaited_since(self, node: str, group: str, requests: list[Request]) -> int | None:
        """Return since when the coordinator awaits a member's SyncGroup, or None if it does not.

        ``requests`` are its JoinGroups and SyncGroups. A JoinGroup that is not answered counts from
        when it came: the coordinator cannot await SyncGroup earlier.
        """
        log = self._logs.get((node, *self._cluster.group_key(group)))
        since: int | None = None
        for api, seq, at_us in requests:
            answered = log is None or self._is_answered(node, log, seq, at_us)
            if api == JOIN and (since is None or answered):
                since = at_us
            elif api == SYNC and answered:
                since = None
        return since

    def _is_answered(self, node: str, log: _Log, seq: int, at_us: int) -> bool:
        """Return whether what the log was when a request came has been committed in time."""
        after = bisect_left(log.ends, (seq, 0, 0))
        end = log.ends[after - 1][2] if after else -1
        if after < len(log.ends):
            _, appended_us, next_end = log.ends[after]
            if appended_us <= self._flushed_us(node, at_us, appended_us):
                end = next_end
        passed = bisect_left(log.high_watermarks, (seq, 0, 0))
        given_up_us = at_us + self._limits.commit_timeout_us
        return end < 0 or any(
            high_watermark >= end and t < given_up_us
            for _, t, high_watermark in log.high_watermarks[max(passed - 1, 0) :]
        )

    def _flushed_us(self, node: str, at_us: int, until_us: int) -> int:
        """Return when a batch is appended at the latest that was open when a request came."""
        paused_us = [
            min(end, until_us) - max(begin, at_us)
            for begin, end in self._standstills.get(node, ())
            if begin < until_us and end > at_us
        ]
        return at_us + self._limits.append_linger_us + sum(paused_us)

    def _on_request(self, _s: int, _t: int, _node: str, fact: facts.MemberRequest) -> None:
        if fact.api == "ConsumerGroupHeartbeat" and not self._follows:
            self._follows = True  # other groups are not judged here: their runs pay for nothing
            trace = self._cluster.trace
            trace.subscribe(facts.BecameLeader, self._on_leader)
            trace.subscribe(facts.Appended, self._on_appended)
            trace.subscribe(facts.HighWatermark, self._on_high_watermark)

    def _log(self, node: str, topic_id: str, partition: int) -> _Log | None:
        topic = self._cluster.topics.get(topic_id)
        if topic is None or topic.topic != "__consumer_offsets":
            return None
        return self._logs.setdefault((node, topic_id, partition), _Log())

    def _on_leader(self, seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        log = self._log(node, fact.topic_id, fact.partition)
        if log is not None:
            log.ends.append((seq, t, fact.start_offset))
            log.high_watermarks.append((seq, t, fact.high_watermark))

    def _on_appended(self, seq: int, t: int, node: str, fact: facts.Appended) -> None:
        log = self._log(node, fact.topic_id, fact.partition)
        if log is not None:
            log.ends.append((seq, t, fact.next_offset))

    def _on_high_watermark(self, seq: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        log = self._log(node, fact.topic_id, fact.partition)
        if log is not None:
            log.high_watermarks.append((seq, t, fact.high_watermark))

    def _on_standstill(self, node: str, begin: int, end: int) -> None:
        self._standstills.setdefault(node, []).append((begin, end))
