"""What group coordinators promise to members: owners, generations, offsets.

    EXCL                a partition of a consumer group (KIP-848) has one owner at a time, whatever
                        the member epochs (in the coordinator's committed view)
    early-handover      a cooperative group gives a partition to another member only after its owner
                        has joined without it (KIP-429)
    vanished-offset     a committed offset that neither expired nor was deleted is with the
                        coordinator at the end

A loss of the offsets partition covers what it has undone. Generations of a group begin again when
it is deleted or changes its protocol, and a coordinator that loads a group knows only the log.
"""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.removed_offsets import DeletedOffsets, Offset
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import instance_of
from kafkasim.model import facts

COMPLETING, DEAD = "CompletingRebalance", "Dead"
Owners = dict[tuple[str, str], tuple[str, int]]
"""Topic id and partition -> the member that owns it, and the row that says so."""


class Coordinators:
    """Which node coordinates the groups of each offsets partition."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._loaded: dict[int, tuple[int, str, bool]] = {}  # leader epoch, node, still loaded

    def on_CoordinatorLoaded(
        self, _s: int, _t: int, node: str, fact: facts.CoordinatorLoaded
    ) -> None:
        known = self._loaded.get(fact.partition, (-1, "", False))
        if fact.loaded and fact.leader_epoch >= known[0]:
            self._loaded[fact.partition] = (fact.leader_epoch, node, True)
        elif known[1] == node:
            self._loaded[fact.partition] = (*known[:2], fact.loaded)

    def on_HostStopped(self, _s: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        for partition in [each for each, known in self._loaded.items() if known[1] == node]:
            del self._loaded[partition]

    def of(self, group: str) -> str:
        """Return the newest coordinator of a group; "" for none, or for one that has resigned."""
        partition = self._history.group_key(group)[1]
        _, node, loaded = self._loaded.get(partition, (-1, "", False))
        return node if loaded else ""


class ConsumerGroupOwners:
    """EXCL in consumer groups; a coordinator that loads a group tells all owners anew."""

    def __init__(self, history: History, findings: Findings, coordinators: Coordinators) -> None:
        self._history = history
        self._findings = findings
        self._coordinators = coordinators
        self._owners: dict[str, Owners] = {}  # by group
        self._epochs: dict[str, int] = {}  # group -> the epoch that it had last
        self._since: dict[str, int] = {}  # group -> the epoch with which it changed its protocol

    def on_CoordinatorLoaded(
        self, _s: int, _t: int, _node: str, fact: facts.CoordinatorLoaded
    ) -> None:
        for group in list(self._owners):
            if fact.loaded and self._history.group_key(group)[1] == fact.partition:
                del self._owners[group]

    def on_GroupConverted(self, _s: int, _t: int, node: str, fact: facts.GroupConverted) -> None:
        """Forget who owned what; it may still be told, once it is committed."""
        if self._coordinators.of(fact.group) == node:
            self._owners.pop(fact.group, None)
            self._since[fact.group] = self._epochs.get(fact.group, 0)

    def on_GroupState(self, _s: int, _t: int, node: str, fact: facts.GroupState) -> None:
        if self._coordinators.of(fact.group) == node:
            self._epochs[fact.group] = fact.generation
            if fact.state == DEAD:
                self._owners.pop(fact.group, None)
                self._since.pop(fact.group, None)

    def on_GroupAssigned(self, seq: int, t: int, node: str, fact: facts.GroupAssigned) -> None:
        if self._coordinators.of(fact.group) != node:
            return
        if fact.assignment and fact.generation < self._since.get(fact.group, 0):
            return
        owners = self._owners.setdefault(fact.group, {})
        for place in [place for place, (who, _) in owners.items() if who == fact.member_id]:
            del owners[place]
        key = self._history.group_key(fact.group)
        for topic_id, name in zip(fact.topic_ids, fact.assignment, strict=False):
            place = topic_id, name.rpartition("-")[2]
            owner, row = owners.get(place, ("", -1))
            if owner:
                self._findings.add(
                    "EXCL", seq, t, key,
                    f"consumer group {fact.group}: {owner} and {fact.member_id} both own {name}",
                    self._history.lost_between(key, row, seq),
                )  # fmt: skip
            owners[place] = (fact.member_id, seq)


class Handovers:
    """early-handover: follows the generations of classic groups at every coordinator."""

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        # By node and group: the JoinGroups since the last generation, by member id.
        self._joined: dict[tuple[str, str], dict[str, facts.MemberRequest]] = {}
        self._owned: dict[tuple[str, str], tuple[int, int, dict[str, facts.MemberRequest]]] = {}
        """The generation, the row that formed it, and the JoinGroup that claims each partition"""

    def on_MemberRequest(self, _s: int, _t: int, node: str, fact: facts.MemberRequest) -> None:
        if fact.api == "JoinGroup":
            self._joined.setdefault((node, fact.group), {})[fact.member_id] = fact

    def on_GroupConverted(self, _s: int, _t: int, node: str, fact: facts.GroupConverted) -> None:
        self._forget((node, fact.group))

    def on_CoordinatorLoaded(
        self, _s: int, _t: int, node: str, fact: facts.CoordinatorLoaded
    ) -> None:
        for place in [*self._joined, *self._owned]:
            if place[0] == node and self._history.group_key(place[1])[1] == fact.partition:
                self._forget(place)

    def _forget(self, place: tuple[str, str]) -> None:
        self._joined.pop(place, None)
        self._owned.pop(place, None)

    def on_GroupState(self, seq: int, _t: int, node: str, fact: facts.GroupState) -> None:
        place = (node, fact.group)
        if fact.state == DEAD:
            self._forget(place)
        elif fact.state == COMPLETING:
            owners = _owners(self._joined.pop(place, {}), fact)
            self._owned[place] = (fact.generation, seq, owners)

    def on_GroupAssigned(self, seq: int, t: int, node: str, fact: facts.GroupAssigned) -> None:
        generation, row, owners = self._owned.get((node, fact.group), (-1, -1, {}))
        for name in fact.assignment if generation == fact.generation else ():
            owner = owners.get(name)
            if owner is None or owner.member_id == fact.member_id:
                continue
            if owner.instance_id and instance_of(fact.member_id) == owner.instance_id:
                continue  # a static member's new id takes over what the old one had (KIP-345)
            key = self._history.group_key(fact.group)
            self._findings.add(
                "early-handover", seq, t, key,
                f"group {fact.group} gives {name} to {fact.member_id} in generation"
                f" {fact.generation}, and {owner.member_id} has not revoked it",
                self._history.lost_between(key, row, seq),
            )  # fmt: skip


def _owners(
    joined: dict[str, facts.MemberRequest], formed: facts.GroupState
) -> dict[str, facts.MemberRequest]:
    """Return who owns what, by the newest claims; of two that claim one partition, neither."""
    claims = [each for member, each in joined.items() if member in formed.member_ids]
    newest = max([each.generation for each in claims if each.owned], default=-1)
    owners: dict[str, list[facts.MemberRequest]] = {}
    for claim in claims:
        for name in claim.owned if claim.generation == newest else ():
            owners.setdefault(name, []).append(claim)
    return {name: each[0] for name, each in owners.items() if len(each) == 1}


class VanishedOffsets:
    """vanished-offset: compares what was committed with what the coordinators hold at the end."""

    def __init__(
        self,
        history: History,
        findings: Findings,
        trace: FactSource,
        coordinators: Coordinators,
        retention_us: int,
    ) -> None:
        self._history = history
        self._findings = findings
        self._coordinators = coordinators
        self._retention_us = retention_us
        self._deletions = DeletedOffsets(trace)
        self._committed: dict[Offset, tuple[int, int, facts.OffsetCommitted]] = {}  # row, time
        self._final: dict[Offset, None] = {}
        self._deleted: dict[str, None] = {}  # names of topics
        self._end = (-1, -1)  # row and time of the run's end

    def on_OffsetCommitted(self, seq: int, t: int, _n: str, fact: facts.OffsetCommitted) -> None:
        if fact.coordinator_epoch >= 0:  # else ZooKeeper has it
            self._committed[fact.group, fact.topic, fact.partition] = (seq, t, fact)

    def on_TopicDeleted(self, _s: int, _t: int, _n: str, fact: facts.TopicDeleted) -> None:
        self._deleted[fact.topic] = None

    def on_FinalOffset(self, _s: int, _t: int, node: str, fact: facts.FinalOffset) -> None:
        if self._coordinators.of(fact.group) == node:
            self._final[fact.group, fact.topic, fact.partition] = None

    def on_Phase(self, seq: int, t: int, _node: str, fact: facts.Phase) -> None:
        if fact.phase == "end":
            self._end = (seq, t)

    def finish(self) -> None:
        """Judge what the coordinators hold; one that has resigned holds nothing."""
        seq, t = self._end
        for place, (row, at, commit) in self._committed.items() if seq >= 0 else ():
            node = self._coordinators.of(commit.group)
            if (
                place in self._final
                or commit.topic in self._deleted
                or self._deletions.cover(row, commit)
                or not node
                or t - at >= self._retention_us
            ):
                continue
            key = self._history.group_key(commit.group)
            self._findings.add(
                "vanished-offset", seq, t, key,
                f"{node}, the coordinator of group {commit.group}, has no offset of"
                f" {commit.topic}-{commit.partition}, which was committed and neither expired nor"
                " deleted",
                self._history.lost_between(key, row, seq),
            )  # fmt: skip
