"""early-handover: a cooperative group assigns no partition before its owner has revoked it.

A member's JoinGroup names the partitions that it owns (KIP-429). If a generation gives such a
partition to another member, the owner still has it: the owner revokes only when it gets the
assignment, and then joins again. A claim is out of date if another member names a later generation,
or the same partition (KAFKA-12984). The judge compares the order of rows, not times, so no fault
explains a violation. A coordinator that loads a group knows only the log, so the claims of its
earlier tenure do not count. Nor do claims of a group that was deleted, or that changed to the
consumer protocol, because its generations begin again. For consumer groups (KIP-848) EXCL checks
the same: their coordinator knows which members have not revoked yet.
"""

from __future__ import annotations

from typing import Any

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import instance_of
from kafkasim.model import facts

Claim = tuple[int, facts.MemberRequest]
"""The row of a JoinGroup, and what it says."""


class Handovers:
    """Follows the classic groups at every coordinator."""

    def __init__(self, cluster: TracedCluster) -> None:
        self.cluster = cluster
        # All by node and group.
        self._claims: dict[tuple[str, str], dict[str, Claim]] = {}
        self._formed: dict[tuple[str, str], int] = {}  # the row of the last generation
        self._owners: dict[tuple[str, str], tuple[int, dict[str, Claim]]] = {}
        """The generation, and who owned which partition when it was formed"""
        cluster.trace.subscribe(facts.MemberRequest, self._on_request)
        cluster.trace.subscribe(facts.GroupState, self._on_state)
        cluster.trace.subscribe(facts.GroupConverted, self._on_converted)
        cluster.trace.subscribe(facts.GroupAssigned, self._on_assigned)
        cluster.trace.subscribe(facts.CoordinatorLoaded, self._on_loaded)

    def _on_request(self, seq: int, _t: int, node: str, fact: facts.MemberRequest) -> None:
        if fact.api == "JoinGroup":
            self._claims.setdefault((node, fact.group), {})[fact.member_id] = (seq, fact)

    def _on_state(self, seq: int, _t: int, node: str, fact: facts.GroupState) -> None:
        """Take the claims of the members that have joined since the last generation."""
        place = (node, fact.group)
        if fact.state == "Dead":
            self._forget(place)
        if fact.state != "CompletingRebalance":
            return
        since = self._formed.get(place, -1)
        self._formed[place] = seq
        claims = self._claims.get(place, {})
        joined = [claims[each] for each in fact.member_ids if each in claims]
        telling = [each for each in joined if each[0] > since and each[1].owned]
        newest = max([request.generation for _, request in telling], default=-1)
        owners: dict[str, list[Claim]] = {}
        for claim in telling:
            if claim[1].generation == newest:
                for name in claim[1].owned:
                    owners.setdefault(name, []).append(claim)
        alone = {name: each[0] for name, each in owners.items() if len(each) == 1}
        self._owners[place] = (fact.generation, alone)

    def _on_converted(self, _s: int, _t: int, node: str, fact: facts.GroupConverted) -> None:
        self._forget((node, fact.group))

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.CoordinatorLoaded) -> None:
        """Forget what the node knew of the partition's groups in an earlier tenure."""
        for place in [place for place in self._claims if place[0] == node]:
            if self.cluster.group_key(place[1])[1] == fact.partition:
                self._forget(place)

    def _forget(self, place: tuple[str, str]) -> None:
        tables: tuple[dict[tuple[str, str], Any], ...] = (self._claims, self._formed, self._owners)
        for known in tables:
            known.pop(place, None)

    def _on_assigned(self, seq: int, t: int, node: str, fact: facts.GroupAssigned) -> None:
        generation, owners = self._owners.get((node, fact.group), (-1, {}))
        if generation != fact.generation:
            return
        for name in fact.assignment:
            row, owner = owners.get(name, (-1, None))
            if owner is None or owner.member_id == fact.member_id:
                continue
            if owner.instance_id and instance_of(fact.member_id) == owner.instance_id:
                continue  # a static member's new id takes over what the old one had (KIP-345)
            key = self.cluster.group_key(fact.group)
            self.cluster.violated(
                "early-handover", seq, t, key,
                f"group {fact.group} gives {name} to {fact.member_id} in generation {generation},"
                f" and {owner.member_id} has not revoked it",
                self.cluster.lost_between(key, row, seq),
            )  # fmt: skip
