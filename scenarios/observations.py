"""What can be said to have happened: observations, by the facts that show them.

A scenario names them in ``must-see`` and ``never``. An observation is a word, some with a detail
behind a colon (``isr-shrink:lag``); without the detail any will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model import facts

OBSERVATIONS: dict[str, str] = {
    "isr-shrink": "a replica left an ISR; detail: lag, fenced, controlled-shutdown, unclean",
    "isr-expand": "a replica joined an ISR",
    "isr-of-one": "a leader's ISR shrank to the leader itself",
    "leader-change": "a partition got another leader; detail: the reason",
    "leaderless": "a partition had no leader",
    "unclean-election": "a leader was elected outside the ISR",
    "fenced": "the controller fenced a broker",
    "unfenced": "the controller unfenced a broker that was fenced",
    "controlled-shutdown": "a broker shut down in the controlled way",
    "truncated": "a replica cut records from its log",
    "failover": "another controller became active after t = 0",
    "send-failed": "a producer gave a batch up; detail: the error",
    "rebalance": "a group began a generation after its first",
    "member-expired": "a group's member was removed; detail: session, poll-interval",
    "coordinator-moved": "a group coordinator was loaded after t = 0",
    "recovered": "a log was recovered after an unclean stop",
    "redelivered": "a group got a record twice",
    "min-isr-refused": "an acks=all record failed with NOT_ENOUGH_REPLICAS",
}


class Observer:
    """Collects the observations of a run from the trace, with the time of the first of each."""

    def __init__(self, trace: Any) -> None:
        self.seen: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.ready_us: int | None = None
        self._isr: dict[tuple[str, int], tuple[int, ...]] = {}
        self._leader: dict[tuple[str, int], int] = {}
        self._fenced: dict[int, bool] = {}
        self._generation: dict[str, int] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        handlers: dict[type, Callable[[int, int, str, Any], None]] = {
            facts.Phase: self._on_phase,
            facts.PartitionChanged: self._on_partition,
            facts.BrokerRegistration: self._on_broker,
            facts.IsrChanged: self._on_isr,
            facts.Truncated: self._on_truncated,
            facts.ControllerActive: self._on_controller,
            facts.SendFailed: self._on_failed,
            facts.GroupState: self._on_group,
            facts.CoordinatorLoaded: self._on_coordinator,
            facts.LogLoaded: self._on_loaded,
            facts.HostStopped: self._on_stopped,
        }
        for kind, handler in handlers.items():
            trace.subscribe(kind, handler)

    def note(self, name: str, t_us: int) -> None:
        """Record that something was observed, under its name and its bare word."""
        for key in (name, name.partition(":")[0]):
            self.seen.setdefault(key, t_us)
            self.counts[key] = self.counts.get(key, 0) + 1

    def _on_phase(self, _seq: int, t_us: int, _node: str, fact: facts.Phase) -> None:
        if fact.phase == "ready":
            self.ready_us = t_us

    def _on_partition(self, _seq: int, t_us: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        before, self._isr[key] = self._isr.get(key), fact.isr
        if before is not None:
            if any(replica not in fact.isr for replica in before):
                self.note(f"isr-shrink:{fact.reason}", t_us)
            if any(replica not in before for replica in fact.isr):
                self.note(f"isr-expand:{fact.reason}", t_us)
        led, self._leader[key] = self._leader.get(key), fact.leader
        if led is not None and fact.leader != led:
            if fact.leader == -1:
                self.note("leaderless", t_us)
            else:
                self.note(f"leader-change:{fact.reason}", t_us)
        if fact.unclean:
            self.note("unclean-election", t_us)

    def _on_broker(self, _seq: int, t_us: int, _node: str, fact: facts.BrokerRegistration) -> None:
        if fact.change == "fenced":
            self.note("fenced", t_us)
        if fact.change == "unfenced" and self.ready_us is not None:
            self.note("unfenced", t_us)
        self._fenced[fact.broker] = fact.fenced

    def _on_isr(self, _seq: int, t_us: int, _node: str, fact: facts.IsrChanged) -> None:
        if fact.change == "shrink" and len(fact.isr) == 1:
            self.note("isr-of-one", t_us)

    def _on_truncated(self, _seq: int, t_us: int, _node: str, fact: facts.Truncated) -> None:
        if fact.offset < fact.log_end_offset:
            self.note("truncated", t_us)

    def _on_controller(
        self, _seq: int, t_us: int, _node: str, fact: facts.ControllerActive
    ) -> None:
        if fact.active and self.ready_us is not None:
            self.note("failover", t_us)

    def _on_failed(self, _seq: int, t_us: int, _node: str, fact: facts.SendFailed) -> None:
        self.note(f"send-failed:{fact.error}", t_us)
        if fact.error.startswith("NOT_ENOUGH_REPLICAS"):
            self.note("min-isr-refused", t_us)

    def _on_group(self, _seq: int, t_us: int, _node: str, fact: facts.GroupState) -> None:
        known = self._generation.get(fact.group, 0)
        if fact.generation > known:
            self._generation[fact.group] = fact.generation
            if known:
                self.note("rebalance", t_us)
        if fact.reason.startswith("member-expired"):
            self.note(fact.reason, t_us)

    def _on_coordinator(
        self, _seq: int, t_us: int, _node: str, fact: facts.CoordinatorLoaded
    ) -> None:
        if fact.loaded and self.ready_us is not None:
            self.note("coordinator-moved", t_us)

    def _on_loaded(self, _seq: int, t_us: int, _node: str, fact: facts.LogLoaded) -> None:
        if not fact.clean and self.ready_us is not None:
            self.note("recovered", t_us)

    def _on_stopped(self, _seq: int, t_us: int, node: str, fact: facts.HostStopped) -> None:
        if fact.reason == "shutdown" and node.startswith("broker"):
            self.note("controlled-shutdown", t_us)
