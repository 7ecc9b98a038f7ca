"""Stalls of a consumer group with a classic member that nobody watches (KIP-848).

A classic member that joins a consumer group is a member at once, while the coordinator's records of
it wait for their commit. Its session begins only when they are committed
(GroupMetadataManager.classicGroupJoinToConsumerGroup, appendFuture.whenComplete). If that takes
longer than offsets.commit.timeout.ms, no session begins, and the records stand. A member that does
not come back under its id stays in the group for ever and keeps what is assigned to it; only the
next coordinator, which begins a session for every member that it loads, removes it (onLoaded).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.analysis.judging.transactions.liveness.groups.static_leader import READS
from kafkasim.model import facts

UNWATCHED = "member-without-session"


@dataclass(slots=True)
class _Join:
    """A member of a consumer group that came with a JoinGroup and has sent nothing since."""

    at_us: int
    place: tuple[str, PartitionKey]  # the coordinator, and its partition of __consumer_offsets
    end: int = -1  # the offset after the batch with its records; −1: it is not appended yet


class UnwatchedMembers:
    """Follows classic members whose records are not committed in time.

    ``group_key(group)`` is the group's partition of __consumer_offsets; ``commit_timeout_us`` is
    offsets.commit.timeout.ms.
    """

    def __init__(
        self,
        trace: FactSource,
        group_key: Callable[[str], PartitionKey],
        commit_timeout_us: int,
    ) -> None:
        self._trace = trace
        self._group_key = group_key
        self._commit_timeout_us = commit_timeout_us
        self._consumer: dict[tuple[str, str], None] = {}  # (node, group): it has the new protocol
        self._asked: dict[tuple[str, str], int] = {}  # (node, group) -> its last JoinGroup's time
        self._states: dict[str, tuple[str, facts.GroupState]] = {}  # group -> its last, and where
        self._assigned: dict[tuple[str, str], tuple[str, ...]] = {}  # (group, member id) -> what
        self._joins: dict[tuple[str, str], _Join] = {}  # (group, member id) -> how it came
        self._appended: dict[tuple[str, PartitionKey], tuple[int, int]] = {}  # -> time, log end
        self._end_us = 0
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.Phase, self._on_phase)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        found = READS.match(line)
        if found is None or found[1] not in self._states:
            return ""
        group, partition = found[1], found[2]
        node, state = self._states[group]
        unwatched = [each for each in state.member_ids if self._is_unwatched(node, group, each)]
        others = [each for each in state.member_ids if each not in unwatched]
        owned = any(partition in self._assigned.get((group, each), ()) for each in others)
        return UNWATCHED if unwatched and not owned else ""

    def _is_unwatched(self, node: str, group: str, member_id: str) -> bool:
        join = self._joins.get((group, member_id))
        return (
            join is not None
            and join.place[0] == node
            and join.end >= 0
            and self._end_us >= join.at_us + self._commit_timeout_us
        )

    def _on_phase(self, _seq: int, t: int, _node: str, _fact: facts.Phase) -> None:
        self._end_us = t

    def _on_request(self, _seq: int, t: int, node: str, fact: facts.MemberRequest) -> None:
        if fact.api == "ConsumerGroupHeartbeat":
            if not self._consumer:
                self._follow_groups()
            self._consumer[node, fact.group] = None
        elif fact.api == "JoinGroup":
            self._asked[node, fact.group] = t
        self._joins.pop((fact.group, fact.member_id), None)  # its request begins a session

    def _follow_groups(self) -> None:
        """Follow groups: there is one of the new protocol. Other runs pay for nothing."""
        for kind, handler in (
            (facts.GroupState, self._on_state),
            (facts.GroupConverted, self._on_converted),
            (facts.GroupAssigned, self._on_assigned),
            (facts.Appended, self._on_appended),
            (facts.HighWatermark, self._on_high_watermark),
        ):
            self._trace.subscribe(kind, handler)

    def _on_converted(self, _seq: int, _t: int, node: str, fact: facts.GroupConverted) -> None:
        if fact.protocol == "consumer":
            self._consumer[node, fact.group] = None
        else:
            self._consumer.pop((node, fact.group), None)

    def _on_state(self, _seq: int, t: int, node: str, fact: facts.GroupState) -> None:
        where, before = self._states.get(fact.group, (node, None))
        self._states[fact.group] = (node, fact)
        came = (node, fact.group) in self._consumer and self._asked.get((node, fact.group)) == t
        if fact.reason == "loaded" or not came:
            return
        known = () if before is None or where != node else before.member_ids
        place = (node, self._group_key(fact.group))
        appended_us, end = self._appended.get(place, (-1, -1))
        for member_id in fact.member_ids:
            if member_id not in known:
                # With group.coordinator.append.linger.ms its records are appended later.
                join = _Join(t, place, end if appended_us == t else -1)
                self._joins[fact.group, member_id] = join

    def _on_assigned(self, _seq: int, _t: int, _node: str, fact: facts.GroupAssigned) -> None:
        self._assigned[fact.group, fact.member_id] = fact.assignment

    def _on_appended(self, _seq: int, t: int, node: str, fact: facts.Appended) -> None:
        place = (node, (fact.topic_id, fact.partition))
        self._appended[place] = (t, fact.next_offset)
        for join in self._joins.values():
            if join.place == place and join.end < 0:
                join.end = fact.next_offset

    def _on_high_watermark(self, _seq: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        if not self._joins:
            return
        place = (node, (fact.topic_id, fact.partition))
        for member, join in list(self._joins.items()):
            in_time = t < join.at_us + self._commit_timeout_us
            if in_time and join.place == place and 0 <= join.end <= fact.high_watermark:
                del self._joins[member]  # its session begins
