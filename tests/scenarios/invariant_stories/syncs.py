"""Classic members of consumer groups whose SyncGroup is answered late, or not (KIP-848)."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row
from tests.scenarios.invariant_stories.common import LOADED, OFFSETS


def _asks(api: str, epoch: int, member: str = "m1") -> Row:
    """A request. The rebalance timeouts are 10 s, and the sessions 30 s."""
    joins = api == "JoinGroup" or epoch == 0
    return "broker-1", facts.MemberRequest(
        "billing", member, None, api, epoch, ("orders",) if joins else (), (), 30_000,
        10_000 if joins else 0,
    )  # fmt: skip


def _group(epoch: int, *members: str) -> Row:
    return "broker-1", facts.GroupState("billing", "Stable", epoch, members, "uniform", "")


def _later(seconds: float) -> Row:
    return "world", seconds


_APPENDED: Row = ("broker-1", facts.Appended("offsets-id", 0, 0, 1, 2, -1, -1, -1, ()))
_COMMITTED: Row = ("broker-1", facts.HighWatermark("offsets-id", 0, 0, 2, 1, (1,)))
_GONE = _group(3, "m2")
_SYNC = _asks("SyncGroup", 2)
_AGAIN = [_asks("Heartbeat", 2), _asks("JoinGroup", 2)]
_JOINED: list[Row] = [
    OFFSETS, LOADED, _asks("JoinGroup", -1), _asks("ConsumerGroupHeartbeat", 0, "m2"),
    ("broker-1", facts.GroupConverted("billing", "consumer", "")), _group(2, "m1", "m2"),
    _later(3), _asks("JoinGroup", 1), _group(2, "m1", "m2"),
]  # fmt: skip
"""m1, of the classic protocol, has joined once more, and has nothing to wait for."""


def _leads(leader_epoch: int, high_watermark: int) -> Row:
    """The coordinator leads a log of two records."""
    return "broker-1", facts.BecameLeader(
        "offsets-id", 0, leader_epoch, leader_epoch, 2, high_watermark, (1,)
    )


SYNC_STORIES: dict[str, tuple[list[Row], list[Row], list[Row]]] = {
    "needless-eviction a SyncGroup waits for the high watermark": (
        [*_JOINED, _later(1), _APPENDED, _SYNC],
        [_later(9), _GONE],
        [_later(4), _COMMITTED, _later(5), _GONE],
    ),
    "needless-eviction all was committed when a SyncGroup came": (
        [*_JOINED, _later(1)],
        [_APPENDED, _SYNC, _COMMITTED, _later(30), _GONE],
        [_APPENDED, _COMMITTED, _SYNC, _later(9), _GONE],
    ),
    "needless-eviction a SyncGroup is given up that was not answered in time": (
        [*_JOINED, _later(1), _APPENDED, _SYNC],
        [_later(5), _COMMITTED, _later(4), _GONE],
        [_later(4.9), _COMMITTED, _later(4.1), _GONE],
    ),
    "needless-eviction a SyncGroup waits for the open batch": (
        [*_JOINED, _later(1), _SYNC],
        [_later(0.005), _APPENDED, _later(9), _GONE],
        [_later(0.006), _APPENDED, _later(9), _GONE],
    ),
    "needless-eviction a pause keeps the batch open for which a SyncGroup waits": (
        [*_JOINED, _later(1), _SYNC, ("broker-1", facts.HostPaused(1_000_000))],
        [_later(1.005), _APPENDED, _later(8), _GONE],
        [_later(1.006), _APPENDED, _later(8), _GONE],
    ),
    "needless-eviction a SyncGroup waits for what a new leader has not committed": (
        [*_JOINED, _leads(0, 1), _SYNC],
        [_later(10), _GONE],
        [_later(4), _leads(1, 2), _later(6), _GONE],
    ),
    "needless-eviction the next JoinGroup is not answered": (
        [*_JOINED, _later(1), _APPENDED, _SYNC],
        [_later(5), *_AGAIN, _later(4), _GONE],
        [_later(1), _COMMITTED, _later(4), *_AGAIN, _later(4), _GONE],
    ),
}  # fmt: skip
"""What comes first, how it goes well, and how it goes badly."""
