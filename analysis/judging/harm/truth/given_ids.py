"""Which id a consumer group's coordinator gives to a static classic member that joins without one.

The id is a random one (KIP-848; GroupMetadataManager.classicGroupJoinToConsumerGroup), so it does
not tell the group.instance.id, and no request names both if the answer is lost. The coordinator
replays its records before it answers, so the state of the group that it tells next, at the instant
of the JoinGroup, has the id as its only new one. (A classic group tells no state when a static
member comes back, so another id may be new in the state in which one has its old id back.)
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts


class GivenIds:
    """Follows the JoinGroups of static members that have no id."""

    def __init__(self, trace: FactSource) -> None:
        self._asked: dict[tuple[str, str], tuple[int, facts.MemberRequest]] = {}  # node, group
        self._members: dict[tuple[str, str], tuple[str, ...]] = {}  # the last state's
        self._joins: dict[tuple[str, str], facts.MemberRequest] = {}  # group, the id that it got
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.MemberIdReverted, self._on_reverted)
        trace.subscribe(facts.GroupState, self._on_state)

    def join(self, group: str, member_id: str) -> facts.MemberRequest | None:
        """Return the JoinGroup with which a static member got this id, if it had none."""
        return self._joins.get((group, member_id))

    def _on_request(self, _s: int, t: int, node: str, fact: facts.MemberRequest) -> None:
        if fact.api == "JoinGroup" and not fact.member_id and fact.instance_id is not None:
            self._asked[node, fact.group] = (t, fact)
        elif self._asked:
            self._asked.pop((node, fact.group), None)

    def _on_reverted(self, _s: int, _t: int, node: str, fact: facts.MemberIdReverted) -> None:
        self._asked.pop((node, fact.group), None)

    def _on_state(self, _s: int, t: int, node: str, fact: facts.GroupState) -> None:
        key = (node, fact.group)
        before = self._members.get(key, ())
        self._members[key] = fact.member_ids
        at_us, join = self._asked.pop(key, (-1, None))
        new = [each for each in fact.member_ids if each not in before]
        if join is not None and at_us == t and len(new) == 1 and fact.reason != "loaded":
            self._joins[fact.group, new[0]] = join
