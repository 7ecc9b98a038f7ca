"""Needless resets: a group's position was moved although its records are where they were.

A consumer gives its position up for auto.offset.reset, or for where the leader's log has diverged,
in three cases (SubscriptionState.requestOffsetReset, maybeCompleteValidation): the group has no
committed offset; the leader answers OFFSET_OUT_OF_RANGE; or OffsetsForLeaderEpoch tells of a
truncation below the position (KIP-320). Only committed records reach a consumer. So a position up
to which the group has read is out of range, or truncated, only after the partition has lost records
below it, or its log start has risen above it. A replica that lags is no reason: its answer sends
the consumer back to the leader (FetchCollector.handleInitializeErrors, KIP-392), and epochs keep it
from a deposed leader.

But a consumer that goes back to the leader while a replica has its fetch (AbstractFetch.
requestMetadataUpdate clears it when metadata no longer names the broker) takes the replica's answer
for the leader's. A leader names only replicas that have the position. So such a reset is no judge's
matter if a replica that was named to this member has come back, as a follower, with a log that ends
below the position: its disk was replaced, say.

A member without a position is not judged: what the coordinator answers it is OFFSET's matter. Nor
are old consumers, whose fetches carry no epoch, and users' applications, which may seek to an end
(KafkaConsumer.seekToBeginning is a reset, too).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkasim.analysis.judging.delivery import RESETS
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.passed import Readers
from kafkasim.analysis.judging.source import Losses, PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of


@dataclass(frozen=True, slots=True)
class _Reset:
    before: int  # the position
    seq: int
    told: str


class NeedlessResets:
    """Follows one run; :meth:`finish` returns an anomaly for each partition and group.

    Losses explain a reset whatever their reason is: an unclean election also cuts what was read.
    ``apart`` are the groups of users' applications.
    """

    def __init__(
        self, trace: FactSource, readers: Readers, losses: Losses, apart: Iterable[str] = ()
    ) -> None:
        self._readers = readers
        self._losses = losses
        self._start: dict[PartitionKey, int] = {}  # the highest log start of any replica
        self._apart: dict[str, None] = dict.fromkeys(apart)  # groups, and topics that were deleted
        self._found: dict[tuple[str, PartitionKey], list[_Reset]] = {}
        self._named: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        """The row in which the leader first named each replica to a member, by its node"""
        self._fetches: dict[tuple[str, PartitionKey], int] = {}  # from which replica, −1: leader
        self._followers: dict[tuple[int, PartitionKey], list[tuple[int, int]]] = {}
        """(row, log end) of each time at which a broker began to follow"""
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.LogStart, self._on_log_start)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.PartitionOwner, self._on_owner)
        trace.subscribe(facts.ReadReplica, self._on_replica)
        trace.subscribe(facts.BecameFollower, self._on_follower)

    def _on_positioned(self, seq: int, _t: int, node: str, fact: facts.Positioned) -> None:
        key = (fact.topic_id, fact.partition)
        before = self._readers.of(fact.group, fact.member_id, key).before
        if fact.reason not in RESETS or not 0 <= before <= self._readers.read(fact.group, key):
            return
        judged = fact.group not in self._apart and fact.topic_id not in self._apart
        if self._answered_by_follower(node, key, before):
            return
        if judged and before >= self._start.get(key, 0):
            told = f"{node} was moved from offset {before} to {fact.offset} ({fact.reason})"
            self._found.setdefault((fact.group, key), []).append(_Reset(before, seq, told))

    def _answered_by_follower(self, node: str, key: PartitionKey, position: int) -> bool:
        """Return whether a replica that the member has left may have refused its position."""
        return self._fetches.get((node, key), 0) == -1 and any(
            since < row and end < position
            for replica, since in self._named[node, key].items()
            for row, end in self._followers.get((replica, key), ())
        )

    def _on_replica(self, seq: int, _t: int, node: str, fact: facts.ReadReplica) -> None:
        place = (node, (fact.topic_id, fact.partition))
        self._fetches[place] = fact.replica
        named = self._named.setdefault(place, {})
        if fact.replica != -1:
            named.setdefault(fact.replica, seq)

    def _on_follower(self, seq: int, _t: int, node: str, fact: facts.BecameFollower) -> None:
        place = (broker_of(node), (fact.topic_id, fact.partition))
        self._followers.setdefault(place, []).append((seq, fact.log_end_offset))

    def _on_log_start(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        key = (fact.topic_id, fact.partition)
        self._start[key] = max(fact.offset, self._start.get(key, 0))

    def _on_topic_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._apart[fact.topic_id] = None

    def _on_owner(self, _seq: int, _t: int, _node: str, fact: facts.PartitionOwner) -> None:
        self._apart[fact.group] = None

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by partition and group."""
        found = []
        for (group, key), resets in sorted(self._found.items(), key=lambda each: each[0][::-1]):
            needless = [
                reset
                for reset in resets
                if not any(
                    loss.seq < reset.seq and loss.first < reset.before for loss in self._losses(key)
                )
            ]
            if needless:
                first = needless[0]
                found.append(
                    Finding("needless-reset", *key, first.told, len(needless), offset=first.before,
                            group=group, seq=first.seq)
                )  # fmt: skip
        return found
