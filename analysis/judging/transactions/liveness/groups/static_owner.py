"""Stalls of a group whose static member came back between the two rebalances of a handover.

A cooperative assignor gives a partition to nobody while its owner still has it (KIP-429). The owner
revokes it and joins again, so that the next generation may give it away
(ConsumerCoordinator.onJoinComplete, requestRejoin). That this rebalance is due is known to the
owner's process and, once its JoinGroup is there, to the coordinator: PreparingRebalance is in no
record, and another coordinator loads the generation as Stable (GroupMetadataManager.onLoaded). If
both have failed, or the owner before it has joined, its new process takes the member over under the
static id. That rebalances nothing: it is told the stored assignment of this generation (KIP-345,
GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin; before 4.0
GroupCoordinator.updateStaticMemberAndRebalance), which equals all that it has, so there is nothing
to revoke and no reason to join again. The leader watches metadata, not owners. Nobody has the
partition until a member comes or goes or the topics change.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.transactions.liveness.groups.static_leader import READS
from kafkasim.model import facts

RETURNED = "static-owner-returned"


@dataclass(slots=True)
class _Generation:
    """A generation of a group since all its members had joined."""

    node: str  # its coordinator
    number: int
    owned: dict[str, tuple[str, ...]]  # static member id -> what it had when it joined
    members: tuple[str, ...] = ()  # as the coordinator has them in the stable phase
    assigned: dict[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # by the coordinator's record
    rebalances: bool = True  # whether the coordinator knows of a rebalance that is not done
    is_new: bool = True  # it has been in no other state since


class StaticOwners:
    """Follows what static members had when a generation began, and who has come back in it."""

    def __init__(self, trace: FactSource) -> None:
        self._owned: dict[tuple[str, str], tuple[str, ...]] = {}  # (group, static member id)
        self._generations: dict[str, _Generation] = {}
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.GroupConverted, self._on_converted)
        trace.subscribe(facts.GroupAssigned, self._on_assigned)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        found = READS.match(line)
        now = None if found is None else self._generations.get(found[1])
        if found is None or now is None or now.rebalances:
            return ""
        if any(found[2] in each for each in now.assigned.values()):
            return ""
        returned = [names for each, names in now.owned.items() if each not in now.members]
        return RETURNED if any(found[2] in names for names in returned) else ""

    def _on_request(self, _seq: int, _t: int, node: str, fact: facts.MemberRequest) -> None:
        """Note what a member has; one that joins under its id asks for the next rebalance."""
        if fact.api != "JoinGroup" or not fact.member_id:
            return
        if fact.instance_id is not None:
            self._owned[fact.group, fact.member_id] = fact.owned
        now = self._generations.get(fact.group)
        if now is not None and now.node == node and fact.member_id in now.members:
            now.rebalances = True

    def _on_state(self, _seq: int, _t: int, node: str, fact: facts.GroupState) -> None:
        """Follow a generation to its stable phase, and from one coordinator to the next.

        In a stable phase members have other ids only if their static ids came back. Only a
        coordinator that loads the group may forget a rebalance.
        """
        now = self._generations.get(fact.group)
        if fact.state == "CompletingRebalance":
            owned = {each: self._owned.get((fact.group, each), ()) for each in fact.member_ids}
            self._generations[fact.group] = _Generation(node, fact.generation, owned)
            return
        loaded = fact.reason == "loaded"
        if now is None or (node != now.node and not loaded):
            return  # a deposed coordinator rebalances for nobody
        if fact.state != "Stable":
            now.rebalances = True
        elif fact.generation != now.number:
            del self._generations[fact.group]
        else:
            now.node, now.members = node, fact.member_ids
            now.rebalances = now.rebalances and not (loaded or now.is_new)
        now.is_new = False

    def _on_converted(self, _seq: int, _t: int, _node: str, fact: facts.GroupConverted) -> None:
        self._generations.pop(fact.group, None)  # a consumer group has no generations

    def _on_assigned(self, _seq: int, _t: int, node: str, fact: facts.GroupAssigned) -> None:
        now = self._generations.get(fact.group)
        if now is not None and (now.node, now.number) == (node, fact.generation):
            now.assigned[fact.member_id] = fact.assignment
