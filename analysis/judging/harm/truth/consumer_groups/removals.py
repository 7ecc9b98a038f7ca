"""Removals of members from consumer groups that a coordinator repeats.

A timer of a coordinator removes a member and writes that to the log. When the write is not
committed within offsets.commit.timeout.ms, the timer takes it for failed and runs again half a
second later, though the removal stands (CoordinatorRuntime.EventBasedCoordinatorTimer). A member
that has joined again under its id meanwhile is removed once more, whatever it has sent: the second
run replaces its new session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkasim.analysis.judging.harm.truth.standstills import Standstills
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.model import facts

RETRY_US = 500_000
"""The backoff of EventBasedCoordinatorTimer.schedule."""
SLACK_US = 1_000_000
"""What a host may need beyond a deadline: its lanes are busy, or its disk stalls."""
LEAVES = ("ConsumerGroupHeartbeat", -1)
"""The request and the member epoch with which a member of a consumer group leaves."""


@dataclass(slots=True)
class _Removal:
    """A member that is gone, though it did not leave."""

    at_us: int
    member: tuple[str, str]  # group and member id
    place: tuple[str, str, int]  # the coordinator, and its partition of __consumer_offsets
    end: int  # the offset after the batch with its records; −1: it is not appended yet
    paused_us: int = 0  # of the host, since then


class Removals:
    """Keeps the removals that a coordinator has not committed in time."""

    def __init__(self, cluster: TracedCluster, commit_timeout_us: int) -> None:
        """``commit_timeout_us`` is offsets.commit.timeout.ms of the brokers."""
        self._cluster = cluster
        self._commit_timeout_us = commit_timeout_us
        self._members: dict[tuple[str, str], tuple[str, ...]] = {}  # by node and group
        self._left: dict[tuple[str, str, str], int] = {}  # (node, group, member id) -> when
        self._removed: list[_Removal] = []
        self._appended: dict[tuple[str, str, int], tuple[int, int]] = {}  # place -> (when, log end)
        self._has_consumer_groups = False
        self._topic_id = ""  # of __consumer_offsets
        trace = cluster.trace
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        self._standstills = Standstills(trace, self._on_standstill)

    def repeats(self, node: str, group: str, member_id: str, t: int) -> bool:
        """Return whether the removal of a member now follows one whose write timed out."""
        after_us = self._commit_timeout_us + RETRY_US
        return any(
            removal.member == (group, member_id)
            and removal.place[0] == node
            and 0 <= t - removal.at_us - after_us <= removal.paused_us + SLACK_US
            for removal in self._removed
        )

    def _on_topic(self, _s: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic == "__consumer_offsets":
            self._topic_id = fact.topic_id

    def _on_request(self, _s: int, t: int, node: str, fact: facts.MemberRequest) -> None:
        if fact.api == "ConsumerGroupHeartbeat" and not self._has_consumer_groups:
            self._has_consumer_groups = True  # others leave no removal: their runs pay for nothing
            self._cluster.trace.subscribe(facts.Appended, self._on_appended)
            self._cluster.trace.subscribe(facts.HighWatermark, self._on_high_watermark)
        if fact.api == "LeaveGroup" or (fact.api, fact.generation) == LEAVES:
            self._left[node, fact.group, fact.member_id] = t

    def _on_state(self, _s: int, t: int, node: str, fact: facts.GroupState) -> None:
        before = self._members.get((node, fact.group), ())
        self._members[node, fact.group] = fact.member_ids
        if not self._has_consumer_groups or fact.reason in ("loaded", "reverted"):
            return
        place = (node, *self._cluster.group_key(fact.group))
        appended_us, end = self._appended.get(place, (-1, -1))
        if appended_us != t:  # group.coordinator.append.linger.ms: its records are appended later
            end = -1
        for member_id in before:
            key = (node, fact.group, member_id)
            if member_id not in fact.member_ids and self._left.get(key) != t:
                self._removed.append(_Removal(t, key[1:], place, end))

    def _on_appended(self, _s: int, t: int, node: str, fact: facts.Appended) -> None:
        if fact.topic_id != self._topic_id:
            return
        place = (node, fact.topic_id, fact.partition)
        self._appended[place] = (t, fact.next_offset)
        for removal in self._removed:
            if removal.place == place and removal.end < 0:
                removal.end = fact.next_offset

    def _on_high_watermark(self, _s: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        if fact.topic_id != self._topic_id or not self._removed:
            return
        place = (node, fact.topic_id, fact.partition)
        began_us = t - self._commit_timeout_us
        self._removed = [
            removal
            for removal in self._removed
            if removal.place != place
            or removal.at_us <= began_us
            or not 0 <= removal.end <= fact.high_watermark
        ]

    def _on_standstill(self, node: str, begin: int, end: int) -> None:
        for removal in self._removed:
            if removal.place[0] == node:
                removal.paused_us += end - max(begin, removal.at_us)

    def _on_stopped(self, _s: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        tables: tuple[dict[Any, Any], ...] = (self._members, self._left)
        for known in tables:
            for key in [key for key in known if key[0] == node]:
                del known[key]
        self._removed = [removal for removal in self._removed if removal.place[0] != node]
