"""Owners of partitions in groups of old consumers, which live in ZooKeeper: for both judges."""

from __future__ import annotations

from typing import Any

from kafkasim.model import facts

Story = list[tuple[str, Any]]


def owner(who: str, event: str, partition: int = 0) -> tuple[str, Any]:
    return who, facts.PartitionOwner("g", f"id-{who}", "t", partition, event, "")


def session(who: str, number: int) -> tuple[str, Any]:
    return who, facts.ZooKeeperConnection(number, "CONNECTED", "zookeeper-1")


def ended(who: str, number: int, event: str = "expired") -> tuple[str, Any]:
    return "zookeeper-1", facts.ZooKeeperSession(number, event, who, "zookeeper-1", 9)


def done(who: str) -> tuple[str, Any]:
    return who, facts.RebalanceAttempt("g", f"id-{who}", 1, "done", "")


def stopped_reading(who: str) -> tuple[str, Any]:
    return who, facts.ConsumerRevoked("g", f"id-{who}", 1, ("t-0",), False)


def polled(who: str) -> tuple[str, Any]:
    return who, facts.Polled("g", f"id-{who}", "T", 0, 8, 9, (7,), (1,))


def crashed(who: str) -> tuple[str, Any]:
    return who, facts.HostStopped("crash")


TOPIC = ("controller-1", facts.TopicCreated(1, "T", "t", 1, 1, 1))
C1_OWNS = [TOPIC, session("c1", 1), owner("c1", "claimed"), done("c1")]
BOTH_OWN = "group g: id-c1 and id-c2 both own t-0"
RELEASED = "group g: id-c1 gets offset 7 of t-0, which it has released"
LOST = "group g: id-c1 releases t-0, which it held in a session that has ended"

OWNERS: dict[str, tuple[Story, str]] = {
    "owners: a claim of what another one holds": ([*C1_OWNS, owner("c2", "claimed")], BOTH_OWN),
    "owners: a claim of what was released": (
        [*C1_OWNS, stopped_reading("c1"), owner("c1", "released"), owner("c2", "claimed")], ""),
    "owners: a claim after the session has ended": (
        [*C1_OWNS, ended("c1", 1), owner("c2", "claimed")], ""),
    "owners: a claim that is told after its session has ended": (
        [*C1_OWNS, session("c2", 2), owner("c2", "claimed", 1), ended("c2", 2),
         owner("c2", "claimed")], ""),
    "owners: a claim that is told after another session of its host has ended": (
        [*C1_OWNS, session("c2", 2), owner("c2", "claimed", 1), ended("c2", 5),
         owner("c2", "claimed")], BOTH_OWN),
    "owners: a claim that is told while its session ends": (
        [*C1_OWNS, session("c2", 2), owner("c2", "claimed", 1), ended("c2", 2, "expiring"),
         owner("c2", "claimed")], BOTH_OWN),
    "owners: a void claim leaves the owner as it is": (
        [*C1_OWNS, session("c2", 2), owner("c2", "claimed", 1), ended("c2", 2),
         owner("c2", "claimed"), session("c3", 3), owner("c3", "claimed")],
        "group g: id-c1 and id-c3 both own t-0"),
    "owners: a claim while the session ends": (
        [*C1_OWNS, ended("c1", 1, "expiring"), owner("c2", "claimed")], ""),
    "owners: another session of the same host is not the one that holds it": (
        [*C1_OWNS, ended("c1", 5), owner("c2", "claimed")], BOTH_OWN),
    "owners: the end of an earlier session": (
        [session("c1", 5), ended("c1", 5, "expiring"), *C1_OWNS, owner("c2", "claimed")],
        BOTH_OWN),
    "owners: a claim after a crash": ([*C1_OWNS, crashed("c1"), owner("c2", "claimed")], ""),
    "owners: a release that waits for a session deletes the next owner's znode": (
        [*C1_OWNS, stopped_reading("c1"), owner("c1", "released"), ended("c1", 1),
         owner("c2", "claimed"), session("c1", 2), owner("c1", "claimed")], ""),
    "owners: a release that was answered deletes nothing more": (
        [*C1_OWNS, stopped_reading("c1"), owner("c1", "released"), owner("c1", "claimed", 1),
         ended("c1", 1), owner("c2", "claimed"), session("c1", 2), owner("c1", "claimed")],
        "group g: id-c2 and id-c1 both own t-0"),
    "owners: a release of a process that has ended deletes nothing more": (
        [*C1_OWNS, stopped_reading("c1"), owner("c1", "released"), crashed("c1"),
         owner("c2", "claimed"), session("c1", 2), owner("c3", "claimed")],
        "group g: id-c2 and id-c3 both own t-0"),
    "owners: a claim in a new session": (
        [*C1_OWNS, session("c1", 2), owner("c2", "claimed")], ""),
    # Nothing fences a zombie.
    "owners: a zombie reads on until it knows": (
        [*C1_OWNS, ended("c1", 1), owner("c2", "claimed"), polled("c1")], ""),
    "owners: reading what was released": (
        [*C1_OWNS, owner("c1", "released"), polled("c1")], RELEASED),
    "owners: reading what was claimed again": (
        [*C1_OWNS, owner("c1", "released"), owner("c1", "claimed"), polled("c1")], ""),
    "owners: reading what the process before had released": (
        [*C1_OWNS, owner("c1", "released"), crashed("c1"), polled("c1")], ""),
    # What was held when the session ended is others' now.
    "owners: a release of what was lost": (
        [*C1_OWNS, session("c1", 2), stopped_reading("c1"), owner("c1", "released")], LOST),
    "owners: a release of what was lost and claimed again": (
        [*C1_OWNS, session("c1", 2), owner("c1", "claimed"), owner("c1", "released")], ""),
    "owners: a rebalance that was under way when the session ended goes on": (
        [*C1_OWNS, stopped_reading("c1"), session("c1", 2), owner("c1", "released")], ""),
    "owners: a release of what was lost before the rebalance ended": (
        [TOPIC, session("c1", 1), owner("c1", "claimed"), ended("c1", 1), done("c1"),
         session("c1", 2), owner("c1", "released")], ""),
}  # fmt: skip
"""What happens, and what the judge says, "" for nothing."""
