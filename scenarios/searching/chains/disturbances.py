"""Disturbances of a chain: for a while some messages, one link or one disk is delayed or fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.chains.pace import Pace
from kafkasim.scenarios.searching.draw_faults import (
    CLIENT_APIS,
    LATE_REPLIES,
    METADATA_PURPOSE,
    PURPOSES,
)
from kafkasim.scenarios.searching.shapes.focus import DELAYED, Focus, ms

Disturbance = Callable[[Focus, Pace, Anchor], None]


def _disturb(focus: Focus, kind: str, pace: Pace, anchor: Anchor, **keys: Any) -> None:
    """Add a fault; one in four ends at a fact, if one comes before its time is over."""
    fault: dict[str, Any] = {"kind": kind, **anchor.at(), **keys}
    if kind not in ("reset", "half-open"):
        fault["for"] = ms(pace.away() + pace.near())
        if kind != "gc-pause" and focus.rng.random() < 0.25:
            fault["until"] = {"fact": focus.rng.choice(ENDS[focus.mode])}
    focus.faults.append(fault)


ENDS = {
    "kraft": ("PartitionChanged", "BecameLeader", "BrokerRegistration", "Truncated"),
    "zookeeper": ("PartitionChanged", "BecameLeader", "ControllerActive", "Truncated"),
}
"""Facts that end a disturbance: a held message then arrives right after the change."""


def _pair(focus: Focus) -> dict[str, Any]:
    one, other = focus.rng.sample(focus.brokers, 2)
    return {"node": f"broker-{one}", "peers": [f"broker-{other}"]}


def _node(focus: Focus) -> str:
    return f"broker-{focus.rng.choice(focus.brokers)}"


def late_replication(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Fetches between two brokers, or their responses, wait."""
    _disturb(focus, "hold", pace, anchor, **_pair(focus), **focus.rng.choice(DELAYED))


def late_metadata(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """One broker gets no metadata, then all that it missed at once or one after the other."""
    how: dict[str, Any] = {"purpose": METADATA_PURPOSE[focus.mode]}
    if focus.rng.random() < 0.6:
        how["direction"] = "request"
    _disturb(focus, "hold", pace, anchor, node=_node(focus), **how)


def late_api(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Requests or responses of one API wait at one broker, or at one that has a role."""
    rng = focus.rng
    api = rng.choice((*LATE_REPLIES[focus.mode], *CLIENT_APIS))
    node = rng.choice((_node(focus), "active-controller"))
    direction = rng.choice(("request", "response"))
    _disturb(focus, "hold", pace, anchor, node=node, api=api, direction=direction)


def deaf(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """One broker hears nothing from the others, or they hear nothing from it."""
    node = _node(focus)
    others = [f"broker-{broker}" for broker in range(1, focus.cluster["brokers"] + 1)]
    others.remove(node)
    if focus.rng.random() < 0.5:
        _disturb(focus, "partition-oneway", pace, anchor, node=node, peers=others)
    else:
        _disturb(focus, "partition-oneway", pace, anchor, nodes=others, peers=[node])


def cut_from_one(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Two brokers do not reach each other; all others reach both."""
    _disturb(focus, "partition", pace, anchor, **_pair(focus))


def cut_from_controller(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """One broker does not reach the active controller, in one direction or in both."""
    kind = focus.rng.choice(("partition", "partition-oneway"))
    _disturb(focus, kind, pace, anchor, node=_node(focus), peers=["active-controller"])


def purpose_cut(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """One broker's connections of one purpose carry nothing."""
    purpose = focus.rng.choice(PURPOSES[focus.mode])
    _disturb(focus, "cut-purpose", pace, anchor, node=_node(focus), purpose=purpose)


def sides(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """One broker and half of the clients are cut off from all other servers and brokers.

    Those clients still reach the broker that they knew, whoever leads on the other side.
    """
    rng = focus.rng
    alone = rng.choice(focus.brokers)
    counts = {"producer": 0, "consumer": 0}
    for each in focus.data["workload"]:
        kind = each["kind"].removesuffix("-group")
        if kind in counts:
            counts[kind] += each.get("count", 1)
    clients = [f"{kind}-{n + 1}" for kind, count in counts.items() for n in range(count)]
    nodes = [f"broker-{alone}", *rng.sample(clients, (len(clients) + 1) // 2)]
    others = range(1, focus.cluster["brokers"] + 1)
    peers = [f"broker-{broker}" for broker in others if broker != alone]
    if focus.mode == "kraft":
        combined = focus.cluster.get("combined", 0)
        controllers = range(combined, focus.cluster["controllers"])
        peers += [f"controller-{number + 1}" for number in controllers]
    else:
        peers += [f"zookeeper-{number + 1}" for number in range(focus.cluster["zookeepers"])]
    _disturb(focus, "partition", pace, anchor, nodes=nodes, peers=peers)


def slow_link(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """One link, or all links of one broker, are slow or lose segments."""
    rng = focus.rng
    where = rng.choice((_pair(focus), {"node": _node(focus)}))
    if rng.random() < 0.7:
        extra = ms(rng.choice((10, 50, 200, 600)) * rng.uniform(0.5, 1.5))
        _disturb(focus, "slow-link", pace, anchor, **where, extra=extra)
    else:
        _disturb(focus, "flaky", pace, anchor, **where, loss=rng.choice((0.05, 0.2)))


def connections_break(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Connections of one broker get a reset, or carry nothing more without a sign."""
    kind = focus.rng.choice(("reset", "reset", "half-open"))
    _disturb(focus, kind, pace, anchor, node=_node(focus))


def slow_disk(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """One broker's or controller's disk is slow or stands still."""
    rng = focus.rng
    node = rng.choice((_node(focus), _node(focus), "active-controller"))
    if rng.random() < 0.6:
        _disturb(focus, "slow-disk", pace, anchor, node=node, factor=rng.choice((10, 100, 1000)))
    else:
        _disturb(focus, "disk-stall", pace, anchor, node=node)


def pause(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A broker, or whoever has recorded the fact that was waited for, stands still."""
    node = "@node" if anchor.when and anchor.when["fact"] in HOSTS else _node(focus)
    _disturb(focus, "gc-pause", pace, anchor, node=node)


HOSTS = (
    "BecameLeader", "BecameFollower", "IsrChanged", "Truncated", "LogStart", "LogLoaded",
    "ControllerActive", "CoordinatorLoaded", "IsrUpdateFailed",
)  # fmt: skip
"""Facts that the server records which they are about."""


def clock_jumps(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """One broker's wall clock jumps: retention, timestamps and nothing else may follow it."""
    offset = focus.rng.choice(("-1h", "1h", "10s", "-10s"))
    _disturb(focus, "clock-step", pace, anchor, node=_node(focus), offset=offset)


def quorum_disturbed(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Messages among the controllers, or between them and ZooKeeper, wait or are lost."""
    rng = focus.rng
    if focus.mode == "zookeeper":
        servers = [f"zookeeper-{n + 1}" for n in range(focus.cluster["zookeepers"])]
        node = rng.choice(("active-controller", _node(focus)))
        how = rng.choice((
            {"purpose": "zookeeper"}, {"api": "ZkOperation", "direction": "request"},
            {"api": "ZkOperation", "direction": "response"},
        ))  # fmt: skip
        _disturb(focus, "hold", pace, anchor, node=node, peers=servers, **how)
        return
    if rng.random() < 0.2:  # a voter is cut off from the others, and not from the brokers
        combined = focus.cluster.get("combined", 0)
        numbers = range(combined, focus.cluster["controllers"])
        _disturb(focus, "partition", pace, anchor, node="active-controller",
                 peers=[f"controller-{number + 1}" for number in numbers])  # fmt: skip
        return
    kind = rng.choice(("partition", "partition-oneway", "hold", "cut-purpose"))
    how = {"purpose": rng.choice(("raft-fetch", "raft-vote"))} if kind == "cut-purpose" else {}
    if kind == "hold":
        how = {"api": "RaftFetch", "direction": rng.choice(("request", "response"))}
    node = rng.choice(("active-controller", "any-controller"))
    _disturb(focus, kind, pace, anchor, node=node, **how)


_BOTH: tuple[Disturbance, ...] = (
    late_replication, late_metadata, late_api, deaf, cut_from_one, cut_from_controller, purpose_cut,
    sides, slow_link, connections_break, slow_disk, pause, clock_jumps, quorum_disturbed,
)  # fmt: skip

DISTURBANCES: dict[str, tuple[Disturbance, ...]] = {"kraft": _BOTH, "zookeeper": _BOTH}
"""The disturbances of each mode. A seed draws one to three of them and plays these alone."""
