"""What a leader does with its high watermark, and what a producer waits for.

    HWSTALL   the high watermark passes what the whole ISR has (Partition.maybeIncrementLeaderHW)
    ACKLATE   an acks=all request is answered once the high watermark has passed all that it
              appended (DelayedProduce.tryComplete)

Five seconds cover the fetch that tells a follower's log end, also of an idle partition; one second
covers the way of an answer, and 2.5 s the second attempt of a producer that has given up. Faults of
the hosts that take part explain more, until connections have recovered. HWSTALL is not judged where
Kafka's leader waits for more: a pending change of the ISR, an ISR below min.insync.replicas, a
replication throttle (KIP-73), a replica outside the ISR that is not fenced
(shouldWaitForReplicaToJoinIsr), or that was fenced after the last change of the partition, since
the leader looks again at the next append or fetch only. ACKLATE is judged while no partition has
changed: other partitions of the request may have been refused.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from kafkasim.analysis.judging.disturbances import Disturbances
from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of, node_of

STALL_US = 5_000_000
ANSWER_US = 1_000_000
RETRY_US = 2_500_000
"""The same for a request that was sent again: the producer had given up, and backed off."""
LOOK_US = 1_000_000
MARKS = 1000
"""How many of the last high watermarks of a partition are kept, at least."""


@dataclass(slots=True)
class _Leader:
    """The leader of a partition, and how far its followers are."""

    node: str
    epoch: int
    end: int
    high_watermark: int
    since_us: int  # when the high watermark moved last
    grown_us: int  # when the log grew beyond it
    min_isr: int = 1 << 30  # as the leader told with its last high watermark
    ends: dict[int, int] = field(default_factory=dict)  # broker -> its log end
    ahead_us: dict[int, int] = field(default_factory=dict)  # since when that is beyond it
    marks: list[tuple[int, int]] = field(default_factory=list)  # each high watermark, and when
    told: bool = False  # that this high watermark stands still


class Watermarks:
    """Follows leaders, their high watermarks and the answers to producers."""

    def __init__(self, findings: Findings, disturbances: Disturbances) -> None:
        self._findings = findings
        self._disturbances = disturbances
        self._leaders: dict[PartitionKey, _Leader] = {}
        self._state: dict[PartitionKey, tuple[int, facts.PartitionChanged]] = {}  # since when
        self._pending: dict[PartitionKey, int] = {}  # the leader epoch of an open proposal
        self._fenced: dict[int, int] = {}  # broker -> since when
        self._config_us = self._changed_us = 0  # when a setting, any partition changed last
        self._throttled_us: dict[str, int] = {}  # client -> until when
        self._throttles = False  # whether replication may be throttled
        self._looked = 0
        # The answers that a client got at one instant: its host, the time, the rows.
        self._answers: tuple[str, int, list[tuple[int, facts.Acked]]] = ("", 0, [])

    # ---------------------------------------------------------------------------- the leaders

    def on_BecameLeader(self, _seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        known = self._leaders.get(key)
        if known is None or fact.leader_epoch >= known.epoch:
            self._leaders[key] = _Leader(
                node, fact.leader_epoch, fact.start_offset, fact.high_watermark, t, t
            )

    def on_Appended(self, _seq: int, t: int, node: str, fact: facts.Appended) -> None:
        leader = self._leaders.get((fact.topic_id, fact.partition))
        if leader is not None and leader.node == node:
            if leader.end <= leader.high_watermark:
                leader.grown_us = t
            leader.end = fact.next_offset

    def on_Replicated(self, _seq: int, t: int, node: str, fact: facts.Replicated) -> None:
        leader = self._leaders.get((fact.topic_id, fact.partition))
        if leader is not None and fact.leader_epoch == leader.epoch:
            broker = broker_of(node)
            leader.ends[broker] = fact.next_offset
            if fact.next_offset > leader.high_watermark:
                leader.ahead_us.setdefault(broker, t)

    def on_Truncated(self, _seq: int, _t: int, node: str, fact: facts.Truncated) -> None:
        leader = self._leaders.get((fact.topic_id, fact.partition))
        if leader is not None:
            leader.ends.pop(broker_of(node), None)
            leader.ahead_us.pop(broker_of(node), None)

    def on_HighWatermark(self, _seq: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        leader = self._leaders.get((fact.topic_id, fact.partition))
        if leader is None or leader.node != node:
            return
        leader.high_watermark, leader.min_isr = fact.high_watermark, fact.min_isr
        leader.since_us = leader.grown_us = t
        leader.marks.append((fact.high_watermark, t))
        if len(leader.marks) > 2 * MARKS:
            del leader.marks[:MARKS]
        leader.ahead_us = {
            broker: t for broker, end in leader.ends.items() if end > fact.high_watermark
        }
        leader.told = False

    # ------------------------------------------------------------- why a high watermark may stand

    def on_PartitionChanged(self, _s: int, t: int, _n: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        known = self._state.get(key)
        if known is None or fact.partition_epoch > known[1].partition_epoch:
            self._state[key] = (t, fact)
            self._changed_us = t

    def on_IsrProposed(self, _s: int, _t: int, _node: str, fact: facts.IsrProposed) -> None:
        self._pending[fact.topic_id, fact.partition] = fact.leader_epoch

    def on_IsrChanged(self, _s: int, _t: int, _node: str, fact: facts.IsrChanged) -> None:
        self._pending.pop((fact.topic_id, fact.partition), None)

    def on_ReplicaFailed(self, _s: int, _t: int, _node: str, fact: facts.ReplicaFailed) -> None:
        self._leaders.pop((fact.topic_id, fact.partition), None)

    def on_TopicDeleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        for key in [key for key in self._leaders if key[0] == fact.topic_id]:
            del self._leaders[key]

    def on_BrokerRegistration(
        self, _s: int, t: int, _n: str, fact: facts.BrokerRegistration
    ) -> None:
        if fact.fenced:
            self._fenced.setdefault(fact.broker, t)
        else:
            self._fenced.pop(fact.broker, None)

    def on_ConfigChanged(self, _s: int, t: int, _node: str, fact: facts.ConfigChanged) -> None:
        self._config_us = t
        self._throttles = self._throttles or "throttled" in fact.config

    def on_RequestStats(self, seq: int, t: int, _node: str, _fact: facts.RequestStats) -> None:
        if t - self._looked >= LOOK_US:
            self._look(seq, t)

    def on_Phase(self, seq: int, t: int, _node: str, _fact: facts.Phase) -> None:
        self._look(seq, t)

    def _look(self, seq: int, t: int) -> None:
        self._looked = t
        for key, leader in self._leaders.items() if not self._throttles else ():
            if leader.end <= leader.high_watermark or leader.told or key not in self._state:
                continue
            changed_us, state = self._state[key]
            own = broker_of(leader.node)
            ahead = {own: leader.grown_us, **leader.ahead_us}
            if (
                state.leader_epoch != leader.epoch
                or self._pending.get(key) == leader.epoch
                or len(state.isr) < min(leader.min_isr, len(state.replicas))
                or any(member not in ahead for member in state.isr)
            ):
                continue
            told_us = [ahead[member] for member in state.isr]
            since = max(*told_us, changed_us, self._config_us, leader.since_us)
            outside = [
                self._fenced.get(each, t) for each in state.replicas if each not in state.isr
            ]
            if t - since < STALL_US or any(at > changed_us for at in outside):
                continue
            hosts = [*map(node_of, state.isr), *self._disturbances.controllers()]
            if not self._disturbances.struck(hosts, since, t, healing=True):
                leader.told = True
                self._findings.add(
                    "HWSTALL", seq, t, key,
                    f"{leader.node}'s high watermark stands at {leader.high_watermark} for"
                    f" {(t - since) / 1e6:.3f} s after all of the ISR {list(state.isr)} had more",
                )  # fmt: skip

    # -------------------------------------------------------------------------------- the answers

    def on_Throttled(self, _seq: int, t: int, _node: str, fact: facts.Throttled) -> None:
        self._throttled_us[fact.client_id] = t + fact.throttle_ms * 1000

    def on_Acked(self, seq: int, t: int, node: str, fact: facts.Acked) -> None:
        if self._answers[:2] != (node, t):
            self._judge_answers()
            self._answers = (node, t, [])
        self._answers[2].append((seq, fact))

    def _judge_answers(self) -> None:
        node, t, rows = self._answers
        created = min((t - fact.latency_us for _, fact in rows), default=t)
        if t - created <= ANSWER_US or created <= self._changed_us:
            return
        if any(fact.acks != -1 or fact.base_offset < 0 for _, fact in rows):
            return
        is_retry = any(fact.attempts > 1 for _, fact in rows)
        if self._throttled_us.get(node, -1) >= created:
            return
        passed = created
        hosts = [node]
        own = [(fact.topic_id, fact.partition) for _, fact in rows]
        for key, (_, fact) in zip(own, rows):
            leader = self._leaders.get(key)
            end = fact.base_offset + len(fact.record_ids)
            at = -1 if leader is None else bisect_left(leader.marks, (end, 0))
            if leader is None or at == len(leader.marks):
                return
            hosts.append(leader.node)
            passed = max(passed, leader.marks[at][1])
        limit = RETRY_US if is_retry else ANSWER_US
        if t - passed <= limit or (is_retry and not self._rest(hosts, own, t - ANSWER_US)):
            return
        if not self._disturbances.struck(hosts, created, t, healing=is_retry):
            seq, fact = rows[0]
            self._findings.add(
                "ACKLATE", seq, t, (fact.topic_id, fact.partition),
                f"{node} is answered {(t - passed) / 1e6:.3f} s after {hosts[-1]} has committed its"
                f" records",
            )  # fmt: skip

    def _rest(self, hosts: list[str], own: list[PartitionKey], since: int) -> bool:
        """Return whether the other partitions of these leaders have committed all since then.

        A retried batch is a duplicate, of which no fact tells; its request waits for others.
        """
        return all(
            leader.end <= leader.high_watermark and leader.since_us <= since
            for key, leader in self._leaders.items()
            if leader.node in hosts and key not in own
        )
