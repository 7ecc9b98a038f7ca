"""changed-generation: a generation has the members that its leader was told of (classic groups).

When all members have joined, the JoinGroup responses name them to the leader, which assigns
partitions to these member ids. Who comes or goes meanwhile, or comes back as a static member under
another id, makes the group rebalance again (KAFKA-9801). So a generation becomes Stable with the
members that it had when it began, or never. Otherwise a member under an id that the leader does not
know owns nothing, and nobody reads what an id owns that is gone.
"""

from __future__ import annotations

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.model import facts

LOADED = "loaded"
"""The reason of a state that a coordinator has found in its log."""


class Generations:
    """Follows the generations that wait for their assignment."""

    def __init__(self, cluster: TracedCluster) -> None:
        self._cluster = cluster
        self._told: dict[tuple[str, str], facts.GroupState] = {}  # by node and group
        cluster.trace.subscribe(facts.GroupState, self._on_state)
        cluster.trace.subscribe(facts.GroupConverted, self._on_converted)

    def _on_state(self, seq: int, t: int, node: str, fact: facts.GroupState) -> None:
        place = (node, fact.group)
        told = self._told.get(place)
        if fact.state == "CompletingRebalance":
            if told is None or told.generation != fact.generation:
                self._told[place] = fact
            return
        self._told.pop(place, None)
        if told is None or fact.state != "Stable" or fact.generation != told.generation:
            return
        if fact.reason != LOADED and sorted(fact.member_ids) != sorted(told.member_ids):
            self._cluster.violated(
                "changed-generation", seq, t, self._cluster.group_key(fact.group),
                f"generation {fact.generation} of group {fact.group} is Stable with"
                f" {', '.join(fact.member_ids)}; its leader was told of"
                f" {', '.join(told.member_ids)}",
            )  # fmt: skip

    def _on_converted(self, _s: int, _t: int, node: str, fact: facts.GroupConverted) -> None:
        """From now on the states of a consumer group are told, and it may be Stable, too."""
        self._told.pop((node, fact.group), None)
