"""Decisions that Kafka's time limits forbid, and the facts that say what they were decided on.

    LAGREASON           a member leaves the ISR, and lacks no record or was behind for less than
                        replica.lag.time.max.ms (ReplicaState.isCaughtUp, KAFKA-7152)
    FENCEREASON         a session ends before its timeout is over: a broker's with the controller
                        (BrokerHeartbeatTracker.isExpired), a client's with ZooKeeper (ExpiryQueue)
    needless-eviction   the coordinator removes a member of a classic group that it has heard within
                        the session timeout (GroupMetadataManager.classicGroupHeartbeat)
    needless-rebalance  a member joins a stable classic group again and rebalances it, though it
                        subscribes as before and does not lead: it has only missed an answer
                        (GroupMetadataManager.classicGroupJoinExistingMember)
    long-rebalance      a classic group waits longer for JoinGroup than its members' longest
                        rebalance timeout (KIP-62)

All times are on the clock of the process that decided, from what it had received. So neither a
pause nor the network explains a violation, and no limit needs a margin.
"""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.model import facts

NOWHERE = ("", -1)


class Decisions:
    """Compares each decision with what it was made on."""

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings

    def on_IsrProposed(self, seq: int, t: int, node: str, fact: facts.IsrProposed) -> None:
        for broker, end, behind in zip(fact.replica_ids, fact.replica_ends, fact.behind_us):
            if end == fact.leader_end or 0 <= behind <= fact.limit_us:
                self._findings.add(
                    "LAGREASON", seq, t, (fact.topic_id, fact.partition),
                    f"{node} removes broker {broker} from the ISR for lag: its log ends at {end}"
                    f" and the leader's at {fact.leader_end}, {behind / 1e6:.3f} s after it was"
                    f" caught up; replica.lag.time.max.ms is {fact.limit_us / 1e6:.3f} s",
                )  # fmt: skip

    def on_SessionEnded(self, seq: int, t: int, node: str, fact: facts.SessionEnded) -> None:
        if fact.silent_us < fact.session_us:
            self._fenced(seq, t, node, f"broker {fact.broker}", fact.silent_us, fact.session_us)

    def on_ZooKeeperSession(
        self, seq: int, t: int, node: str, fact: facts.ZooKeeperSession
    ) -> None:
        if fact.event == "expiring" and fact.silent_us < fact.timeout_us:
            self._fenced(seq, t, node, fact.client, fact.silent_us, fact.timeout_us)

    def _fenced(self, seq: int, t: int, node: str, who: str, silent: int, limit: int) -> None:
        self._findings.add(
            "FENCEREASON", seq, t, NOWHERE,
            f"{node} ends the session of {who} after a silence of {silent / 1e6:.3f} s; its timeout"
            f" is {limit / 1e6:.3f} s",
        )  # fmt: skip

    def on_MemberExpired(self, seq: int, t: int, node: str, fact: facts.MemberExpired) -> None:
        if fact.silent_us < fact.session_us:
            self._findings.add(
                "needless-eviction", seq, t, self._history.group_key(fact.group),
                f"{node} removes {fact.member_id} from group {fact.group},"
                f" {fact.silent_us / 1e6:.3f} s after it was heard; its session lasts"
                f" {fact.session_us / 1e6:.3f} s",
            )  # fmt: skip

    def on_GroupState(self, seq: int, t: int, _node: str, fact: facts.GroupState) -> None:
        key = self._history.group_key(fact.group)
        if not fact.changed:
            self._findings.add(
                "needless-rebalance", seq, t, key,
                f"group {fact.group} leaves generation {fact.generation}, and no member,"
                f" subscription or partition has changed ({fact.reason})",
            )  # fmt: skip
        if fact.wait_us > fact.rebalance_timeout_us:
            self._findings.add(
                "long-rebalance", seq, t, key,
                f"group {fact.group} waits {fact.wait_us / 1e6:.3f} s for its members to join;"
                f" their timeouts allow {fact.rebalance_timeout_us / 1e6:.3f} s",
            )  # fmt: skip
