"""DEADINISR on facts written by hand, at times in seconds: see test_harm.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkasim.model import facts
from tests.scenarios.fact_makers import P, T, changed, registration

Timed = tuple[float, str, Any]

SECOND = 1_000_000


def _limit(node: str, config: str, seconds: float) -> Timed:
    return 0, node, facts.TimeLimit(config, int(seconds * SECOND))


def _heard(t: float, node: str = "controller-1") -> Timed:
    return t, node, facts.BrokerHeartbeat(2, 1, 5, False, False)


def _elected(t: float, node: str) -> Timed:
    return t, node, facts.ControllerActive(1, True)


def _session(t: float, event: str, zxid: int = -1) -> Timed:
    return t, "zookeeper-1", facts.ZooKeeperSession(9, event, "broker-2", "zookeeper-1", zxid)


def _looked(t: float) -> Timed:
    return t, "broker-1", facts.RequestStats("Fetch", 1, 0, 1, 1, 1, 1, 1)


def _isr(t: float, offset: int, *isr: int, leader: int = 1, reason: str = "fenced") -> Timed:
    fact = facts.PartitionChanged(offset, T, P, leader, 1, offset, isr, (1, 2, 3), reason, False)
    return t, "controller-1", fact


KRAFT: list[Timed] = [
    (0, "controller-1", facts.HostStarted(0)),
    _limit("controller-1", "broker.session.timeout.ms", 8),
    _elected(0, "controller-1"),
    (0, "controller-1", registration(3, 2)),
    (0, "controller-1", changed(4, (1, 2, 3))),
    _heard(1),
]
ZOOKEEPER: list[Timed] = [
    _limit("broker-2", "zookeeper.session.timeout.ms", 6),
    _limit("zookeeper-1", "minSessionTimeout", 1),
    _limit("zookeeper-1", "maxSessionTimeout", 10),
    (0, "zookeeper-1", facts.ZooKeeperRole("leading", 1, 1)),
    _session(0, "created", 2),
    _elected(0, "broker-3"),
    (0, "broker-3", registration(3, 2)),
    (0, "broker-3", changed(4, (1, 2, 3))),
]
ANEW: Timed = (9, "controller-1", replace(registration(5, 2, "registered"), broker_epoch=2))
GONE: list[Timed] = [*ZOOKEEPER, _session(5, "expired", 9)]

DEAD_STORIES: dict[str, tuple[list[Timed], list[Timed], list[Timed]]] = {
    "DEADINISR a broker that is silent for a session and an eighth": (
        KRAFT, [_looked(11.4)], [_looked(11.6)],
    ),
    "DEADINISR a broker that registers anew, before its session has ended": (
        [*KRAFT, ANEW], [_looked(11.4)], [_looked(11.6)],
    ),
    "DEADINISR a broker that leaves in time": (
        KRAFT, [_isr(11.4, 6, 1, 3), _looked(60)], [_isr(11.6, 6, 1, 3), _looked(60)],
    ),
    "DEADINISR a new controller begins the sessions anew": (
        [_limit("controller-2", "broker.session.timeout.ms", 8), *KRAFT,
         _elected(8, "controller-2")],
        [_looked(18.4)], [_heard(17), _looked(18.6)],
    ),
    "DEADINISR a controller that was paused": (
        KRAFT, [(11, "controller-1", facts.HostPaused(SECOND)), _looked(15)],
        [(11, "broker-1", facts.HostPaused(SECOND)), _looked(15)],
    ),
    "DEADINISR the last member of an ISR has no leader": (
        KRAFT, [_isr(2, 6, 2, leader=-1), _looked(60)], [_isr(2, 6, 2, leader=2), _looked(60)],
    ),
    "DEADINISR a broker whose session has expired": (GONE, [_looked(6.4)], [_looked(6.6)]),
    "DEADINISR a session that a new leader of the ensemble tells again": (
        [*ZOOKEEPER, _session(5, "expired", 9), _session(5.1, "created", 10)],
        [_session(5.2, "expired", 9), _looked(9)],
        [_session(5.2, "expired", 11), _looked(9)],
    ),
    "DEADINISR a broker that registers in a next session": (
        GONE, [_session(6, "created", 11), _looked(9)], [_session(7, "created", 11), _looked(9)],
    ),
    "DEADINISR a session that nobody touches": (
        ZOOKEEPER, [_session(2, "touched"), _looked(12)], [_looked(12)],
    ),
    "DEADINISR nobody can write while there is no controller": (
        [*GONE, (5.5, "broker-3", facts.HostStopped("crash"))],
        [_looked(60)], [_elected(20, "broker-1"), _looked(21.6)],
    ),
    "DEADINISR a member that joined unseen, and the next controller": (
        [*ZOOKEEPER, _isr(1, 5, 1, 3), _session(5, "expired", 9), _isr(5.1, 6, 1, 2, 3)],
        [_looked(60)], [_elected(20, "broker-1"), _looked(60)],
    ),
    "DEADINISR a replica of a topic that is being deleted": (
        GONE, [_isr(5.1, 6, 1, 2, reason="deletion"), _looked(60)],
        [_isr(5.1, 6, 1, 2), _looked(60)],
    ),
}  # fmt: skip
