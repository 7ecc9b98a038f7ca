"""LAGREASON: a replica that leaves the ISR for lag lacks records, and was behind for the limit.

A leader may remove a member that was last caught up longer than replica.lag.time.max.ms ago, unless
its log ends where the leader's does (ReplicaState.isCaughtUp). Kafka calls a follower caught up at
the time of a fetch that asks for the leader's log end, and at the time of a fetch whose successor
asks for what was the log end then (ReplicaState). The judge does not ask the leader when that was.
It finds the latest time at which the follower must have counted as caught up, whatever the network
did, from three things that it sees:

- The high watermark reaches the log end, and the follower is among those that have acknowledged
  it. Its fetch from that offset was read after the last batch had been appended.
- The follower appends records of a leader epoch up to the leader's log end of that moment, and
  appends again from there. The fetch that brought the first records was sent after the follower's
  append before it. Its successor asked for the log end of that time.
- In both cases nothing is known from before the leader's epoch began: it begins with no progress.

A removal is needless if the leader's clock shows less than the limit since that time. However long
ago that was, a removal is needless if the leader knew that both logs end at the same offset
(KAFKA-7152): its last high watermark is its log end, the follower is among those that have
acknowledged it, and the leader has appended nothing since. A follower that has started, truncated
or opened another log since then may have fetched from a lower offset, so it is not judged by this.

A pause of the leader, a slow link or a slow disk delays what the judge sees as it delays the
leader, so none of them needs an excuse. The decision counts (IsrProposed): the controller may hear
of it much later. And a removal that the controller records for lag needs a leader's decision.
"""

from __future__ import annotations

from kafkasim.analysis.judging.harm.truth.logs import Logs
from kafkasim.analysis.judging.harm.truth.nodes import ROUNDING_US, Nodes
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

LIMIT = "replica.lag.time.max.ms"


class LagReason:
    """Compares what leaders remove for lag with what the followers have fetched."""

    def __init__(self, cluster: TracedCluster, nodes: Nodes, logs: Logs) -> None:
        self.cluster = cluster
        self._nodes = nodes
        self._leaders = logs.leaders
        self._isr: dict[PartitionKey, facts.PartitionChanged] = {}
        self._proposed: dict[tuple[PartitionKey, int], dict[int, None]] = {}
        trace = cluster.trace
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.IsrProposed, self._on_proposed)

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
            if leader.has_whole_log(broker):
                self.cluster.violated(
                    "LAGREASON", seq, t, key,
                    f"{node} removes broker {broker} from the ISR for lag, though both logs end at"
                    f" {leader.end}",
                )  # fmt: skip
                continue
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
                leader.forget(broker)
        if before is None or fact.reason != "lag":
            return
        # Before metadata version 3.6-IV0 the shrink itself raises the epoch in which it was decided
        # (PartitionChangeBuilder.triggerLeaderEpochBumpForIsrShrinkIfNeeded).
        decided = {
            **self._proposed.get((key, before.leader_epoch), {}),
            **self._proposed.get((key, fact.leader_epoch), {}),
        }
        gone = [each for each in before.isr if each not in fact.isr and each in fact.replicas]
        for broker in [each for each in gone if each not in decided]:
            self.cluster.violated(
                "LAGREASON", seq, t, key,
                f"broker {broker} leaves the ISR for lag, but no leader of epoch"
                f" {fact.leader_epoch} had decided so",
            )  # fmt: skip
