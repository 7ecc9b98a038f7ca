"""The faults of a drawn scenario.

Some are a nemesis, which stays within the no-loss budget. The others have a target: the responses
of one API are late, a broker's metadata stalls and then skips epochs, a node pauses or crashes at a
named fact, connections of one purpose are cut, a link is cut again and again, a log directory
fails.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
from kafkasim.sim.faults.nemesis import WEIGHTS

ODD_KINDS = ("flush-error", "disk-full", "rack-loss")
"""Kinds that no nemesis draws, because most claims exclude them."""

LATE_REPLIES = {
    "kraft": ("Fetch", "Fetch", "AlterPartition", "Produce", "BrokerHeartbeat", "RaftFetch"),
    "zookeeper": ("Fetch", "Fetch", "AlterPartition", "Produce", "LeaderAndIsr", "UpdateMetadata"),
}
"""APIs whose responses or requests a targeted fault holds."""

METADATA_PURPOSE = {"kraft": "raft-fetch", "zookeeper": "controller"}
"""The purpose of the connections on which a broker gets new metadata."""

MOMENTS = {
    "kraft": ("BecameLeader", "BecameFollower", "IsrChanged", "Truncated", "Replicated",
              "LogLoaded", "ControllerActive", "PartitionChanged", "HighWatermark"),
    "zookeeper": ("BecameLeader", "BecameFollower", "IsrChanged", "Truncated", "Replicated",
                  "LogLoaded", "ControllerActive", "PartitionChanged", "ZooKeeperSession"),
}  # fmt: skip
"""Facts at which the host that recorded them pauses or crashes."""

PURPOSES = {
    "kraft": ("raft-fetch", "heartbeat", "alter-partition", "replica-fetch"),
    "zookeeper": ("controller", "zookeeper", "alter-partition", "replica-fetch"),
}
"""Purposes of connections that are cut while all other connections of the broker work."""

CLIENT_APIS = (
    "OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "FindCoordinator", "Metadata",
    "InitProducerId", "ListOffsets", "OffsetFetch",
)  # fmt: skip

MORE_MOMENTS = {
    "kraft": ("RaftRole", "BrokerRegistration", "MetadataCommitted", "CoordinatorLoaded",
              "GroupState", "OffsetCommitted", "Appended", "IsrUpdateFailed", "HostStarted"),
    "zookeeper": ("ZooKeeperRole", "ZooKeeperConnection", "ZkControllerWrite", "ControlRequest",
                  "CoordinatorLoaded", "GroupState", "OffsetCommitted", "Appended", "HostStarted"),
}  # fmt: skip

TWO_DIRECTORIES = 0.15
"""The share of seeds whose brokers have two log directories."""

LOG_DIRS = ["/data/d1", "/data/d2"]
DIRECTORY_KINDS = ("disk-failure", "disk-failure", "disk-failure", "disk-full")


def faults(rng: random.Random, brokers: int, mode: str) -> list[dict[str, Any]]:
    """Draw up to two nemeses and some targeted faults, at least one fault in all."""
    drawn = [_nemesis(rng) for _ in range(rng.choice((0, 1, 1, 2)))]
    if rng.random() < 0.4:
        apis = LATE_REPLIES[mode]
        drawn += [_late(rng, brokers, apis) for _ in range(rng.choice((1, 2)))]
    if rng.random() < 0.3:
        drawn.append(_stalled_metadata(rng, brokers, METADATA_PURPOSE[mode]))
    if not drawn or rng.random() < 0.3:
        drawn += [_at_a_moment(rng, MOMENTS[mode]) for _ in range(rng.choice((1, 1, 2)))]
    return drawn


def more_faults(rng: random.Random, cluster: dict[str, Any], mode: str) -> list[dict[str, Any]]:
    """Draw for some seeds: a purpose cut, a client's API held, a flapping link, a moment."""
    brokers = cluster["brokers"]
    drawn: list[dict[str, Any]] = []
    if rng.random() < 0.25:
        drawn.append({
            "kind": "cut-purpose",
            "node": f"broker-{rng.randrange(1, brokers + 1)}",
            "purpose": rng.choice(PURPOSES[mode]),
            **_times(rng),
        })  # fmt: skip
    if rng.random() < 0.2:
        drawn.append(_late(rng, brokers, CLIENT_APIS))
    if rng.random() < 0.15:
        one, other = rng.sample(range(1, brokers + 1), 2)
        lag_ms = cluster["config"]["replica.lag.time.max.ms"]
        drawn.append({
            "kind": rng.choice(("partition", "partition-oneway")),
            "node": f"broker-{one}",
            "peers": [f"broker-{other}"],
            "at": ["100ms", "2s"],
            "for": ["200ms", f"{min(lag_ms, 3000)}ms"],
            "every": ["1s", f"{min(2 * lag_ms, 4000)}ms"],
            "count": rng.choice((2, 3, 4)),
        })  # fmt: skip
    if rng.random() < 0.2:
        drawn.append(_at_a_moment(rng, MORE_MOMENTS[mode]))
    return drawn


def _late(rng: random.Random, brokers: int, apis: tuple[str, ...]) -> dict[str, Any]:
    """Hold the responses, or the requests, of one API at one broker, then release them."""
    return {
        "kind": "hold",
        "node": f"broker-{rng.randrange(1, brokers + 1)}",
        "api": rng.choice(apis),
        "direction": rng.choice(("response", "response", "request")),
        **_times(rng),
    }


def _stalled_metadata(rng: random.Random, brokers: int, purpose: str) -> dict[str, Any]:
    """Hold a broker's metadata: the next delta it gets spans all that it missed."""
    return {
        "kind": "hold",
        "node": f"broker-{rng.randrange(1, brokers + 1)}",
        "purpose": purpose,
        **_times(rng),
    }


def _at_a_moment(rng: random.Random, moments: tuple[str, ...]) -> dict[str, Any]:
    """Pause or crash the host that records a fact, right then."""
    return {
        "kind": rng.choice(("gc-pause", "gc-pause", "crash")),
        "node": "@node",
        "for": ["300ms", f"{rng.choice((1, 3, 6))}s"],
        "when": {"fact": rng.choice(moments), "count": rng.choice((1, 2, 3, 5, 8))},
    }


def _times(rng: random.Random) -> dict[str, Any]:
    """Draw when a fault starts, how long it lasts and whether it comes again."""
    times: dict[str, Any] = {
        "at": ["100ms", "5s"],
        "for": ["100ms", f"{rng.choice((1, 2, 4))}s"],
    }
    if rng.random() < 0.5:
        times |= {"every": ["1s", "3s"], "count": rng.choice((2, 3))}
    return times


def _nemesis(rng: random.Random) -> dict[str, Any]:
    known = [kind for kind in WEIGHTS if kind not in ODD_KINDS]
    kinds = rng.sample(known, rng.choice((1, 2, 3, 5, len(known))))
    longest = rng.choice((1, 2, 5))
    return {
        "kind": "nemesis",
        "kinds": kinds,
        "gap": rng.choice(("600ms", "1s", "2s")),
        "for": ["300ms", f"{longest}s"],
    }


def two_directories(
    rng: random.Random, data: dict[str, Any], share: float = TWO_DIRECTORIES
) -> None:
    """Give the brokers of some seeds two log directories, and let one or two fail for a while.

    A directory comes back with the broker's next start only, so in half of the cases an operator
    restarts the broker.

    Two kinds of seeds are left alone. A broker whose disk is replaced has directories with other
    ids; a partition of which it alone was in sync stays without a leader until an unclean
    election. With ZooKeeper, a broker that comes back without a directory during a reassignment
    creates the replica that is being added a second time, in the other directory; Kafka refuses to
    start with both logs when the first directory is back.
    """
    if rng.random() >= share or data["expect"].get("never"):
        return
    cluster = data["cluster"]
    apart = (
        ("replace-disk", "reassign") if cluster.get("mode") == "zookeeper" else ("replace-disk",)
    )
    if any(each["kind"] in apart for each in data.get("operations", ())):
        return
    cluster["config"] = {**cluster["config"], "log.dirs": LOG_DIRS}
    if rng.random() < 0.7:  # with KRaft a broker does not survive that its metadata directory fails
        cluster["config"]["metadata.log.dir"] = "/data/meta"
    for _ in range(rng.choice((1, 1, 2))):
        node = f"broker-{rng.randrange(1, cluster['brokers'] + 1)}"
        at = rng.randrange(100, 6000)
        data["faults"].append({
            "kind": rng.choice(DIRECTORY_KINDS), "node": node,
            "dir": rng.choice(LOG_DIRS), "at": f"{at}ms",
            "for": ["300ms", f"{rng.choice((1, 2, 4))}s"],
        })  # fmt: skip
        if rng.random() < 0.5:
            data.setdefault("operations", []).append({
                "kind": "restart", "node": node, "at": f"{at + rng.randrange(500, 5000)}ms",
                "kill": rng.random() < 0.5, "pause": "300ms",
            })  # fmt: skip


LOST_REPLIES = 0.2
"""The share of seeds in which a reply is lost with its connection."""

ASKED = (
    ("AlterPartition", "IsrProposed", 4),
    ("AlterPartition", "IsrProposed", 4),
    ("Produce", "Appended", 60),
    ("OffsetCommit", "Appended", 60),
    ("JoinGroup", "MemberRequest", 20),
    ("SyncGroup", "MemberRequest", 20),
)
"""An API, a fact of a host at one end of such a request before the reply, and how many of these
facts there are at most before the one that counts."""


def lost_replies(rng: random.Random, data: dict[str, Any]) -> None:
    """Lose a reply in some seeds: it is late, and its connection breaks.

    The sender asks again for what has been done. A reply that is only late comes in the end, before
    its request times out; only a lost one shows whether the receiver takes a request twice.
    """
    if rng.random() >= LOST_REPLIES or is_about_its_faults(data):
        return
    api, fact, most = rng.choice(ASKED)
    asked = {"node": "@node", "when": {"fact": fact, "count": rng.randrange(1, most + 1)}}
    data["faults"] += [
        {"kind": "hold", "api": api, "direction": "response", "for": "2s", **asked},
        {"kind": "reset", "at": ["20ms", "1s"], **asked},
    ]
