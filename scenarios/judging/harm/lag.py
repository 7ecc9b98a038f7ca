"""LAGREASON: a replica that leaves the ISR for lag was behind for replica.lag.time.max.ms.

A leader may remove a member that was last caught up longer ago than that (isCaughtUp). Kafka calls
a follower caught up at the time of a fetch that asks for the leader's log end, and at the time of
a fetch whose successor asks for what was the log end then (ReplicaState). The judge does not ask
the leader when that was. It finds the latest time at which the follower must have counted as
caught up, whatever the network did, from three things that it sees:

- The high watermark reaches the log end, and the follower is among those that have acknowledged
  it. Its fetch from that offset was read after the last batch had been appended.
- The follower appends records of a leader epoch up to the leader's log end of that moment, and
  appends again from there. The fetch that brought the first records was sent after the follower's
  append before it. Its successor asked for the log end of that time.
- In both cases nothing is known from before the leader's epoch began: it begins with no progress.

A removal is needless if the leader's clock shows less than the limit since that time. A pause of
the leader, a slow link or a slow disk delays what the judge sees as it delays the leader, so none
of them needs an excuse. The decision counts (IsrProposed): the controller may hear of it much
later. And a removal that the controller records for lag needs a leader's decision.
"""

from __future__ import annotations

from kafkasim.model import facts
from kafkasim.scenarios.judging.harm.nodes import ROUNDING_US, Nodes
from kafkasim.scenarios.judging.invariants.traced import TracedCluster, broker_of
from kafkasim.scenarios.judging.source import PartitionKey

LIMIT = "replica.lag.time.max.ms"


class _Leader:
    """A replica that leads: its log end, and when each follower was caught up at the latest."""

    __slots__ = ("caught_up", "end", "epoch", "grown_us")

    def __init__(self, epoch: int, end: int, now: int) -> None:
        self.epoch = epoch
        self.end = end
        self.grown_us = now  # when the log reached its end
        self.caught_up: dict[int, int] = {}


class _Fetched:
    """What a follower appended last, if that was the leader's whole log."""

    __slots__ = ("epoch", "next_offset", "since_us", "t_us", "whole")

    def __init__(self, epoch: int, next_offset: int, since_us: int, t_us: int, whole: bool) -> None:
        self.epoch = epoch
        self.next_offset = next_offset
        self.since_us = since_us  # the fetch was sent after this
        self.t_us = t_us
        self.whole = whole


class LagReason:
    """Compares what leaders remove for lag with what the followers have fetched."""

    def __init__(self, cluster: TracedCluster, nodes: Nodes) -> None:
        self.cluster = cluster
        self._nodes = nodes
        self._leaders: dict[tuple[PartitionKey, str], _Leader] = {}
        self._newest: dict[PartitionKey, _Leader] = {}
        self._fetched: dict[tuple[PartitionKey, str], _Fetched] = {}
        self._isr: dict[PartitionKey, facts.PartitionChanged] = {}
        self._proposed: dict[tuple[PartitionKey, int], dict[int, None]] = {}
        trace = cluster.trace
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.Appended, self._on_appended)
        trace.subscribe(facts.Replicated, self._on_replicated)
        trace.subscribe(facts.HighWatermark, self._on_high_watermark)
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.IsrProposed, self._on_proposed)

    def _on_leader(self, _seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        leader = _Leader(fact.leader_epoch, fact.start_offset, t)
        self._leaders[key, node] = leader
        known = self._newest.get(key)
        if known is None or known.epoch <= fact.leader_epoch:
            self._newest[key] = leader

    def _on_appended(self, _seq: int, t: int, node: str, fact: facts.Appended) -> None:
        leader = self._leaders.get(((fact.topic_id, fact.partition), node))
        if leader is not None:
            leader.end = fact.next_offset
            leader.grown_us = t

    def _on_high_watermark(self, _seq: int, _t: int, node: str, fact: facts.HighWatermark) -> None:
        leader = self._leaders.get(((fact.topic_id, fact.partition), node))
        if leader is not None and leader.end == fact.high_watermark:
            grown = leader.grown_us
            for broker in fact.acknowledged:
                leader.caught_up[broker] = grown

    def _on_replicated(self, _seq: int, t: int, node: str, fact: facts.Replicated) -> None:
        key = (fact.topic_id, fact.partition)
        leader = self._newest.get(key)
        if leader is None or leader.epoch != fact.leader_epoch:
            return
        known = self._fetched.get((key, node))
        whole = fact.next_offset == leader.end
        if known is None:
            self._fetched[key, node] = _Fetched(fact.leader_epoch, fact.next_offset, t, t, whole)
            return
        if known.epoch == fact.leader_epoch:
            if known.whole and known.next_offset == fact.base_offset:
                broker = broker_of(node)
                if leader.caught_up.get(broker, -1) < known.since_us:
                    leader.caught_up[broker] = known.since_us
            known.since_us = known.t_us
        else:
            known.epoch = fact.leader_epoch
            known.since_us = t
        known.next_offset = fact.next_offset
        known.t_us = t
        known.whole = whole

    def _on_proposed(self, seq: int, t: int, node: str, fact: facts.IsrProposed) -> None:
        if fact.change != "shrink":
            return
        key = (fact.topic_id, fact.partition)
        self._proposed.setdefault((key, fact.leader_epoch), {}).update(
            dict.fromkeys(fact.replica_ids)
        )
        leader, limit = self._leaders.get((key, node)), self._nodes.limit_us(node, LIMIT)
        if leader is None or leader.epoch != fact.leader_epoch or limit is None:
            return
        for broker in fact.replica_ids:
            since = leader.caught_up.get(broker)
            if since is None:
                continue
            behind = self._nodes.elapsed_us(node, since, t)
            if behind < limit - ROUNDING_US:
                self.cluster.violated(
                    "LAGREASON", seq, t, key,
                    f"{node} removes broker {broker} from the ISR for lag, {behind / 1e6:.3f} s"
                    f" after it was caught up; {LIMIT} is {limit / 1e6:.3f} s",
                )  # fmt: skip

    def _on_changed(self, seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        before = self._isr.get(key)
        if before is not None and fact.partition_epoch <= before.partition_epoch:
            return
        self._isr[key] = fact
        for leader in [each for (at, _), each in self._leaders.items() if at == key]:
            for broker in [each for each in leader.caught_up if each not in fact.replicas]:
                del leader.caught_up[broker]  # if it comes back, its progress starts anew
        if before is None or fact.reason != "lag":
            return
        decided = self._proposed.get((key, fact.leader_epoch), {})
        gone = [each for each in before.isr if each not in fact.isr and each in fact.replicas]
        for broker in [each for each in gone if each not in decided]:
            self.cluster.violated(
                "LAGREASON", seq, t, key,
                f"broker {broker} leaves the ISR for lag, but no leader of epoch"
                f" {fact.leader_epoch} had decided so",
            )  # fmt: skip
