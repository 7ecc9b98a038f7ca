"""Why an application may fail in a group though nobody has broken a promise.

All count since the application's host started, by the error with which it failed:

    AssignorError               a topic has other partitions than before: members own what the
                                metadata of the leader lack
    FENCED_INSTANCE_ID          another process joined with the same group.instance.id; or the
                                record of a static member's new id was not committed, or a
                                coordinator has loaded the group: an id that is given in a rebalance
                                is in memory only (GroupCoordinator.updateStaticMemberAndRebalance)
    GROUP_ID_NOT_FOUND          the group was deleted, or is a classic one again (KIP-848)
    UNKNOWN_SERVER_ERROR        a classic group without a chosen assignor, or with partitions that
                                the coordinator does not know, cannot be converted
                                (ConsumerGroup.fromClassicGroup)
    COORDINATOR_LOAD_IN_PROGRESS  a SyncGroup met a coordinator that loads, which a classic consumer
                                does not expect (SyncGroupResponseHandler)
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.model import facts

GROUP_IS_GONE = "GROUP_ID_NOT_FOUND: group "
CLASSIC = ("PreparingRebalance", "CompletingRebalance")


def lost_group(reason: str) -> tuple[str, ...]:
    """Return the group whose loss has failed an application, if that is the reason."""
    return (reason.removeprefix(GROUP_IS_GONE),) if reason.startswith(GROUP_IS_GONE) else ()


class GroupFailures:
    """Follows when each group last had a reason to fail its members."""

    def __init__(self, trace: FactSource) -> None:
        self._started: dict[str, int] = {}  # host -> row
        self._last: dict[tuple[str, str], int] = {}  # error and group -> row of the last reason
        self._joins: dict[tuple[str, str], int] = {}  # group, instance id -> row of the last join
        self._twice: dict[str, int] = {}  # group -> the latest row of a join that had one after it
        self._unchosen: dict[str, None] = {}  # classic groups that have chosen no assignor yet
        self._resized = False
        self._sizes: dict[str, int] = {}  # topic id -> partitions
        self._topics: dict[str, str] = {}  # topic -> id
        self.in_zookeeper: dict[str, None] = {}  # groups of old consumers, whose offsets are there
        follow(trace, self)

    def cover(self, node: str, fact: facts.ApplicationFailed) -> bool:
        """Return whether the failure of the application on a host has such a reason."""
        if fact.exception == "AssignorError":
            return self._resized
        error, _, group = fact.reason.partition(": group ")
        since = self._started.get(node, 0)
        if error == "FENCED_INSTANCE_ID" and self._twice.get(group, -1) >= since:
            return True
        if error == "UNKNOWN_SERVER_ERROR" and (self._resized or group in self._unchosen):
            return True
        return self._last.get((error, group), -1) >= since

    def on_HostStarted(self, seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._started[node] = seq

    def on_GroupState(self, seq: int, _t: int, _node: str, fact: facts.GroupState) -> None:
        if fact.reason == "loaded":
            self._last["FENCED_INSTANCE_ID", fact.group] = seq
        if fact.state == "Dead" or fact.state in CLASSIC:
            self._last["GROUP_ID_NOT_FOUND", fact.group] = seq
        self._unchosen.pop(fact.group, None)
        if fact.state in CLASSIC and not fact.protocol:
            self._unchosen[fact.group] = None

    def on_GroupConverted(self, seq: int, _t: int, _n: str, fact: facts.GroupConverted) -> None:
        self._last["GROUP_ID_NOT_FOUND", fact.group] = seq

    def on_MemberIdReverted(self, seq: int, _t: int, _n: str, fact: facts.MemberIdReverted) -> None:
        self._last["FENCED_INSTANCE_ID", fact.group] = seq

    def on_LoadInProgress(self, seq: int, _t: int, _n: str, fact: facts.LoadInProgress) -> None:
        if fact.request == "SyncGroup":
            self._last["COORDINATOR_LOAD_IN_PROGRESS", fact.group] = seq

    def on_MemberRequest(self, seq: int, _t: int, _n: str, fact: facts.MemberRequest) -> None:
        if fact.api == "JoinGroup" and not fact.member_id and fact.instance_id is not None:
            before = self._joins.get((fact.group, fact.instance_id), -1)
            self._joins[fact.group, fact.instance_id] = seq
            self._twice[fact.group] = max(before, self._twice.get(fact.group, -1))

    def on_PartitionOwner(self, _s: int, _t: int, _node: str, fact: facts.PartitionOwner) -> None:
        self.in_zookeeper[fact.group] = None

    def on_TopicCreated(self, _s: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        former = self._topics.setdefault(fact.topic, fact.topic_id)
        if self._sizes.setdefault(former, fact.partitions) != fact.partitions:
            self._resized = True
        self._topics[fact.topic] = fact.topic_id
        self._sizes.setdefault(fact.topic_id, fact.partitions)

    def on_PartitionChanged(self, _s: int, _t: int, _n: str, fact: facts.PartitionChanged) -> None:
        if fact.partition >= self._sizes.get(fact.topic_id, 1 << 30):
            self._sizes[fact.topic_id] = fact.partition + 1
            self._resized = True
