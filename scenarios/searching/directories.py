"""Some drawn clusters have two log directories a broker, of which one fails (scenarios/searching/swarm.py)."""

from __future__ import annotations

import random
from typing import Any

SHARE = 0.15  # of the seeds
LOG_DIRS = ["/data/d1", "/data/d2"]
KINDS = ("disk-failure", "disk-failure", "disk-failure", "disk-full")


def two_directories(rng: random.Random, data: dict[str, Any], share: float = SHARE) -> None:
    """Draw whether brokers have two directories; if so, one or two of them fail for a while.

    A directory comes back with the next start only, so an operator may restart the broker. A broker
    whose disk is replaced has directories with other ids: what it alone had in sync is led by nobody
    until an unclean election, so such seeds are left alone. So are reassignments with ZooKeeper: when
    a broker comes back without a directory, a replica that is still being added is new once more and
    gets a second log, on which Kafka refuses to start when the directory is back.
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
            "kind": rng.choice(KINDS), "node": node, "dir": rng.choice(LOG_DIRS), "at": f"{at}ms",
            "for": ["300ms", f"{rng.choice((1, 2, 4))}s"],
        })  # fmt: skip
        if rng.random() < 0.5:
            data.setdefault("operations", []).append({
                "kind": "restart", "node": node, "at": f"{at + rng.randrange(500, 5000)}ms",
                "kill": rng.random() < 0.5, "pause": "300ms",
            })  # fmt: skip
