"""DEADINISR: a dead broker leaves all ISRs and leaderships in bounded time.

A dead member holds back the high watermark of every partition in whose ISR it stays. A follower
that lacks no record does not lag (KAFKA-7152), so only the controller removes it.

- A session must end in time. The active controller of KRaft looks for stale brokers eight times a
  session, or when the first session ends (QuorumController.maybeFenceStaleBrokerPeriodNs); the
  batch that ends a session takes the broker from all ISRs. The leader of a ZooKeeper ensemble
  rounds the end up to a tick (ExpiryQueue); half a timeout covers that.
- With ZooKeeper the controller then removes the broker from every ISR
  (KafkaController.onBrokerFailure), and a new controller does so for all dead ones (KAFKA-3143).

Both take 1.5 s more: the watch, the reads and writes, the disks. Faults of a controller or of a
server of the ensemble explain any delay until connections have recovered. These members may stay:

- the last one of an ISR, which then has no leader (without unclean.leader.election.enable);
- one that joined after its session's end and after the election of the controller: the controller
  that found it in no ISR wrote nothing, so that the leader's write succeeds;
- a replica of a topic that is being deleted (KafkaController.onReplicasBecomeOffline).
"""

from __future__ import annotations

from kafkasim.analysis.judging.disturbances import Disturbances
from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

SPREAD_US = 1_500_000
NOWHERE = ("", -1)


class DeadMembers:
    """Compares the members of ISRs with the brokers that are alive."""

    def __init__(self, findings: Findings, disturbances: Disturbances) -> None:
        self._findings = findings
        self._disturbances = disturbances
        self._controller_us: int | None = None  # since when there is an active one, if there is
        self._controller = ""
        self._sessions: dict[int, int] = {}  # broker -> its last ZooKeeper session
        self._ended: dict[int, int] = {}  # broker without a ZooKeeper session -> since when
        self._state: dict[PartitionKey, facts.PartitionChanged] = {}
        self._joined: dict[PartitionKey, dict[int, int]] = {}  # since when each member is one
        self._told: dict[tuple[PartitionKey, int], None] = {}
        self._deleting: dict[str, None] = {}  # topic ids

    def on_SessionEnded(self, seq: int, t: int, node: str, fact: facts.SessionEnded) -> None:
        due = fact.session_us * 9 // 8
        self._judge_end(seq, t, node, f"broker {fact.broker}", fact.silent_us, due)

    def on_ZooKeeperSession(
        self, seq: int, t: int, node: str, fact: facts.ZooKeeperSession
    ) -> None:
        broker = broker_of(fact.client)
        if fact.event == "expiring":
            due = fact.timeout_us * 3 // 2
            self._judge_end(seq, t, node, fact.client, fact.silent_us, due)
        elif broker >= 0 and fact.event == "created":
            self._look(seq, t)
            self._sessions[broker] = fact.session_id
            self._ended.pop(broker, None)
        elif fact.event in ("closed", "expired") and self._sessions.get(broker) == fact.session_id:
            self._ended.setdefault(broker, t)

    def _judge_end(self, seq: int, t: int, node: str, who: str, silent: int, due: int) -> None:
        late = silent - due - SPREAD_US
        if late > 0 and not self._struck(node, t - late, t):
            self._findings.add(
                "DEADINISR", seq, t, NOWHERE,
                f"{node} ends the session of {who} after a silence of {silent / 1e6:.3f} s;"
                f" {due / 1e6:.3f} s would do",
            )  # fmt: skip

    def _struck(self, node: str, since: int, until: int) -> bool:
        hosts = [node, *self._disturbances.controllers()]
        return self._disturbances.struck(hosts, since - SPREAD_US, until, healing=True)

    def on_ControllerActive(self, _s: int, t: int, node: str, fact: facts.ControllerActive) -> None:
        if fact.active:
            self._controller, self._controller_us = node, t
        elif node == self._controller:
            self._controller_us = None

    def on_PartitionChanged(self, seq: int, t: int, _n: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.reason == "deletion":
            self._deleting[fact.topic_id] = None
        before = self._state.get(key)
        if before is None or fact.partition_epoch > before.partition_epoch:
            self._look(seq, t)
            self._state[key] = fact
            joined = self._joined.get(key, {})
            self._joined[key] = {broker: joined.get(broker, t) for broker in fact.isr}

    def on_TopicDeleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._deleting[fact.topic_id] = None

    def on_RequestStats(self, seq: int, t: int, _node: str, _fact: facts.RequestStats) -> None:
        self._look(seq, t)

    def on_Phase(self, seq: int, t: int, _node: str, _fact: facts.Phase) -> None:
        self._look(seq, t)

    def _look(self, seq: int, t: int) -> None:
        """Judge the members that should have left by now."""
        for broker, ended in self._ended.items() if self._controller_us is not None else ():
            since = max(ended, self._controller_us or 0)
            if t - since <= SPREAD_US or self._struck(self._controller, since, t):
                continue
            for key, state in self._state.items():
                late = broker in state.isr and self._joined[key][broker] <= since
                is_last = len(state.isr) == 1 and state.leader != broker
                if not late or is_last or key[0] in self._deleting or (key, broker) in self._told:
                    continue
                self._told[key, broker] = None
                self._findings.add(
                    "DEADINISR", seq, t, key,
                    f"broker {broker} is not alive but in the ISR {state.isr} of leader"
                    f" {state.leader}, {(t - since) / 1e6:.3f} s after the controller should have"
                    " known",
                )  # fmt: skip
