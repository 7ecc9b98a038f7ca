"""MINISR where min.insync.replicas changes while a leader leads."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import P, Row, T, appended, created, high_watermark
from tests.scenarios.invariant_stories.common import ALIVE, Stories, later


def _set(offset: int, value: str | None, resource: str = "topic:orders") -> Row:
    fact = facts.ConfigChanged(offset, resource, "min.insync.replicas", value)
    return "broker-3", fact


def _knows(offset: int) -> Row:
    return "broker-1", facts.MetadataCommitted(offset, 0, 0)


ALONE: Row = ("broker-1", high_watermark(1, (1,)))
ONE: list[Row] = [("controller-1", created(min_isr=1)), ("broker-1", appended(0, (10,)))]
TWO: list[Row] = [("controller-1", created(min_isr=2)), ("broker-1", appended(0, (10,)))]
LOW_ONCE: list[Row] = [
    *TWO, _set(5, "1"), _knows(5), later(9), _set(6, "2"), later(9),
]  # fmt: skip
ZOOKEEPER: list[Row] = [("zookeeper-1", facts.ZooKeeperRole("leading", 1, 1))]
ZK_LOW_ONCE: list[Row] = [*ZOOKEEPER, *TWO, _set(5, "1"), later(90), _set(6, "2")]


def _reassigned(*replicas: int, epoch: int = 0) -> Row:
    return "controller-1", facts.PartitionChanged(
        9, T, P, 1, epoch, 9, (1,), replicas, "reassignment", False
    )


STORIES: Stories = {
    "MINISR a partition has fewer replicas than the minimum": (
        [*ALIVE, *ONE, _set(5, "3"), _knows(5), later(1), _knows(6), _reassigned(1)],
        [ALONE], [("broker-1", high_watermark(1, (1,), epoch=1))],
    ),
    "MINISR the leader's epoch has begun with more replicas": (
        [*ALIVE, *TWO, _reassigned(1), _reassigned(1, 2, epoch=1)],
        [ALONE], [("broker-1", high_watermark(1, (1,), epoch=1))],
    ),
    "MINISR a minimum that was low once": (
        LOW_ONCE, [later(1), ALONE], [_knows(6), later(1), _knows(7), ALONE],
    ),
    "MINISR a leader that has not published a minimum yet": (  # seed 10050050: its disk is slow
        LOW_ONCE, [_knows(6), later(9), ALONE], [_knows(6), later(0.001), _knows(7), ALONE],
    ),
    "MINISR a lower minimum that a leader does not know": (
        [*TWO, _set(5, "1")], [_knows(5), ALONE], [_knows(4), ALONE],
    ),
    "MINISR a minimum that a new controller tells again": (
        [*ONE, _set(5, "1"), _set(6, "2"), _set(5, "1"), _knows(6), later(1),
         _knows(7)],
        [("broker-1", high_watermark(1, (1, 2)))], [ALONE],
    ),
    "MINISR a minimum of a topic of that name before": (
        [*TWO], [_set(2, "1"), _knows(9), later(1), ALONE],
        [_set(0, "1"), _knows(9), later(1), _knows(10), ALONE],
    ),
    "MINISR the minimum of this broker and of another one": (
        TWO, [_set(5, "1", "broker:1"), _knows(9), later(1), ALONE],
        [_set(5, "1", "broker:2"), _knows(9), later(1), _knows(10), ALONE],
    ),
    "MINISR the topic's own minimum is asked first": (
        [*TWO, _set(5, "1", "broker:")], [_knows(9), later(1), ALONE],
        [_set(6, "2"), _knows(9), later(1), _knows(10), ALONE],
    ),
    "MINISR the brokers' minimum counts where the topic's is removed": (
        [*TWO, _set(5, "2")], [_set(6, None), _knows(9), later(1), ALONE],
        [_set(6, None), _set(7, "2", "broker:"), _knows(9), later(1), _knows(10), ALONE],
    ),
    "MINISR with ZooKeeper a minimum that was low once": (
        ZK_LOW_ONCE, [later(1.4), ALONE], [later(1.6), ALONE],
    ),
    "MINISR with ZooKeeper a minimum of which the leader may not have heard": (
        ZK_LOW_ONCE, [("broker-1", facts.HostPaused(1)), later(9), ALONE],
        [("broker-2", facts.HostPaused(1)), later(9), ALONE],
    ),
    "MINISR with ZooKeeper a minimum that may not have been announced": (
        ZK_LOW_ONCE, [("broker-3", facts.HostStopped("crash")), later(90), ALONE],
        [later(2), ("broker-3", facts.HostStopped("crash")), later(90), ALONE],
    ),
}  # fmt: skip
