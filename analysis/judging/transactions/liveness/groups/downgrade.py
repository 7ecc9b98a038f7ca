"""Stalls of a group whose coordinator failed while it rebalanced after a downgrade (KIP-848).

When the last members of the consumer protocol leave, those that stay become a classic group. Its
record says that it is Stable, without those that have left, and has the target assignment. That
its members have to rebalance, because they may have less than that, is known to the coordinator
alone (GroupMetadataManager.convertToClassicGroup, prepareRebalance). Another coordinator loads
the record and rebalances nothing (GroupMetadataManager.onLoaded). Heartbeats of the generation are
answered with NONE, so members keep what the consumer group gave them. Nobody looks for partitions
either: a consumer group's JoinGroup names no leader (classicGroupJoinToConsumerGroup), so no
member takes itself for one (ConsumerCoordinator.onLeaderElected). It lasts until a member comes or
goes. A member that joins again without being the leader is told what the record assigns to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.transactions.liveness.groups.static_leader import READS
from kafkasim.model import facts

FORGOTTEN = "downgrade-forgotten"

UNFINISHED = ("PreparingRebalance", "CompletingRebalance", "Empty", "Dead")
"""What a deposed coordinator may still make of the group, without anybody knowing"""


@dataclass(slots=True)
class _Downgrade:
    """A group since it became a classic one, while it is in the generation of that moment."""

    node: str  # its coordinator
    since_us: int
    generation: int = -1  # −1: its first state as a classic group is not known yet
    leader: str = ""
    rebalances: bool = False
    told: dict[str, tuple[str, ...]] | None = None
    """What each member has, once another coordinator has loaded the group"""
    record: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what the log assigns


class Downgrades:
    """Follows groups from their downgrade to their next rebalance."""

    def __init__(self, trace: FactSource) -> None:
        self._downgrades: dict[str, _Downgrade] = {}
        self._held: dict[tuple[str, str], tuple[str, ...]] = {}  # (group, member id) -> partitions
        trace.subscribe(facts.GroupConverted, self._on_converted)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.GroupAssigned, self._on_assigned)
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.ConsumerAssigned, self._on_member_assigned)
        trace.subscribe(facts.ConsumerRevoked, self._on_member_revoked)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        found = READS.match(line)
        group = None if found is None else self._downgrades.get(found[1])
        if found is None or group is None or group.told is None:
            return ""
        return "" if any(found[2] in each for each in group.told.values()) else FORGOTTEN

    def _on_converted(self, _seq: int, t: int, node: str, fact: facts.GroupConverted) -> None:
        self._downgrades.pop(fact.group, None)
        if fact.protocol == "classic":
            self._downgrades[fact.group] = _Downgrade(node, t)

    def _on_state(self, _seq: int, t: int, node: str, fact: facts.GroupState) -> None:
        """Follow Stable, PreparingRebalance, and Stable again: the rebalance was forgotten.

        A coordinator that knew of it would go on to the next generation. All else ends it.
        """
        group = self._downgrades.get(fact.group)
        if group is None or (node != group.node and fact.state in UNFINISHED):
            return
        stable = fact.state == "Stable"
        if group.generation < 0 and stable and (node, t) == (group.node, group.since_us):
            group.generation, group.leader = fact.generation, fact.group_leader
        elif (fact.generation, fact.group_leader) != (group.generation, group.leader):
            del self._downgrades[fact.group]
        elif fact.state == "PreparingRebalance" and group.told is None:
            group.rebalances = True
        elif stable and group.rebalances:
            group.node = node
            if group.told is None:
                ids = fact.member_ids
                group.told = {each: self._held.get((fact.group, each), ()) for each in ids}
        else:
            del self._downgrades[fact.group]

    def _on_assigned(self, _seq: int, _t: int, _node: str, fact: facts.GroupAssigned) -> None:
        group = self._downgrades.get(fact.group)
        if group is not None and group.told is not None:
            group.record[fact.member_id] = fact.assignment

    def _on_request(self, _seq: int, _t: int, node: str, fact: facts.MemberRequest) -> None:
        """Note what a member is told that joined again, although nobody rebalances."""
        group = self._downgrades.get(fact.group)
        if group is None or group.told is None or fact.api != "SyncGroup":
            return
        if (node, fact.generation) == (group.node, group.generation):
            group.told[fact.member_id] = group.record.get(fact.member_id, ())

    def _on_member_assigned(
        self, _seq: int, _t: int, _node: str, fact: facts.ConsumerAssigned
    ) -> None:
        key, group = (fact.group, fact.member_id), self._downgrades.get(fact.group)
        self._held[key] = self._held.get(key, ()) + fact.assignment
        if group is not None and group.told is not None:
            before = group.told.get(fact.member_id, ())
            group.told[fact.member_id] = before + fact.assignment

    def _on_member_revoked(
        self, _seq: int, _t: int, _node: str, fact: facts.ConsumerRevoked
    ) -> None:
        key = (fact.group, fact.member_id)
        held = self._held.get(key, ())
        self._held[key] = tuple([each for each in held if each not in fact.assignment])
