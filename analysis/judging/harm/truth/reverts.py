"""Static members that get their old id back: what the coordinator may take back, and when.

A static member that comes back to a Stable group gets a new id, and the coordinator writes a record
that says so. If that record could not be appended, or is not committed within
offsets.commit.timeout.ms, the coordinator gives the member its old id back, whatever the group has
been through meanwhile, and the process with the new id is fenced
(GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkasim.analysis.judging.harm.truth.consumer_groups.removals import SLACK_US
from kafkasim.analysis.judging.harm.truth.standstills import Standstills
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.model import facts

TIMED_OUT = "REQUEST_TIMED_OUT"
"""The error of a record that was appended, and not committed in time."""


@dataclass(slots=True)
class _Return:
    """A static member that came back to a Stable group."""

    at_us: int
    static: tuple[str, str, str | None]  # node, group and group.instance.id
    place: tuple[str, str, int]  # the coordinator, and its partition of __consumer_offsets
    end: int = -1  # the offset after the batch with its record; −1: it is not appended yet
    paused_us: int = 0  # of the host, since then


class Reverts:
    """Finds out whether an old id came back for a reason; if not, a member is gone needlessly."""

    def __init__(
        self,
        cluster: TracedCluster,
        commit_timeout_us: int,
        violated: Callable[[str, int, int, str, str], None],
    ) -> None:
        """``violated(name, seq, t_us, group, message)`` tells of one that had none."""
        self._cluster = cluster
        self._commit_timeout_us = commit_timeout_us
        self._violated = violated
        self._states: dict[tuple[str, str], str] = {}  # by node and group
        self._returns: list[_Return] = []  # whose record is not committed
        # By node, group and new member id: when the old id came back, and that id.
        self._reverted: dict[tuple[str, str, str], tuple[int, str]] = {}
        self._drifting: dict[str, None] = {}  # hosts
        self._follows_log = False
        trace = cluster.trace
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.MemberIdReverted, self._on_reverted)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.FaultStarted, self._on_fault)
        self._standstills = Standstills(trace, self._on_standstill)

    def explain(self, node: str, fact: facts.GroupState, member_id: str, t: int) -> bool:
        """Return whether a member is gone now because its old id is back, which is a member."""
        at_us, old_id = self._reverted.get((node, fact.group, member_id), (-1, ""))
        return at_us == t and old_id in fact.member_ids

    def _on_request(self, _s: int, t: int, node: str, fact: facts.MemberRequest) -> None:
        returns = fact.api == "JoinGroup" and fact.instance_id is not None and not fact.member_id
        if not returns or self._states.get((node, fact.group)) != "Stable":
            return
        if not self._follows_log:
            self._follows_log = True  # other runs pay for nothing
            self._cluster.trace.subscribe(facts.Appended, self._on_appended)
            self._cluster.trace.subscribe(facts.HighWatermark, self._on_high_watermark)
        static = (node, fact.group, fact.instance_id)
        place = (node, *self._cluster.group_key(fact.group))
        self._returns.append(_Return(t, static, place))

    def _on_state(self, _s: int, _t: int, node: str, fact: facts.GroupState) -> None:
        self._states[node, fact.group] = fact.state

    def _on_reverted(self, seq: int, t: int, node: str, fact: facts.MemberIdReverted) -> None:
        new_id = fact.new_member_id
        self._reverted[node, fact.group, new_id] = (t, fact.member_id)
        static = (node, fact.group, fact.instance_id)
        failed = [each for each in self._returns if each.static == static]
        if node not in self._drifting and not any(self._may_fail(t, fact, each) for each in failed):
            self._violated(
                "needless-eviction", seq, t, fact.group,
                f"{new_id} of group {fact.group} gives way to {fact.member_id}, though its record"
                f" could be committed ({fact.error})",
            )  # fmt: skip

    def _may_fail(self, t: int, fact: facts.MemberIdReverted, each: _Return) -> bool:
        """Return whether the record of a member's return may have failed with the error told."""
        if fact.error != TIMED_OUT:
            return each.end < 0
        late_us = t - each.at_us - self._commit_timeout_us
        return 0 <= late_us <= each.paused_us + SLACK_US

    def _on_appended(self, _s: int, _t: int, node: str, fact: facts.Appended) -> None:
        place = (node, fact.topic_id, fact.partition)
        for each in self._returns:
            if each.place == place and each.end < 0:
                each.end = fact.next_offset

    def _on_high_watermark(self, _s: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        place = (node, fact.topic_id, fact.partition)
        began_us = t - self._commit_timeout_us
        self._returns = [
            each
            for each in self._returns
            if each.place != place
            or each.at_us <= began_us
            or not 0 <= each.end <= fact.high_watermark
        ]

    def _on_standstill(self, node: str, begin: int, end: int) -> None:
        for each in self._returns:
            if each.place[0] == node:
                each.paused_us += end - max(begin, each.at_us)

    def _on_stopped(self, _s: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        self._returns = [each for each in self._returns if each.place[0] != node]
        for key in [key for key in self._states if key[0] == node]:
            del self._states[key]

    def _on_fault(self, _s: int, _t: int, _n: str, fact: facts.FaultStarted) -> None:
        if fact.fault == "clock-drift":
            self._drifting[fact.target] = None
