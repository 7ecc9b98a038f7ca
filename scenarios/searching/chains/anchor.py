"""When a link of a chain begins: at a time, or some time after a fact was recorded."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from kafkasim.scenarios.searching.shapes.focus import TOPIC, ms

SEEN = 0.35
"""The share of links that wait for a fact."""

OF_THE_TOPIC: tuple[dict[str, Any], ...] = (
    {"fact": "PartitionChanged", "fields": {"reason": "caught-up"}},
    {"fact": "PartitionChanged", "fields": {"reason": "lag"}},
    {"fact": "PartitionChanged", "at-most": {"isr": 2}},
    {"fact": "PartitionChanged", "at-most": {"isr": 1}},
    {"fact": "IsrChanged"},
    {"fact": "IsrUpdateFailed"},
    {"fact": "BecameLeader", "at-least": {"leader_epoch": 1}},
    {"fact": "BecameFollower", "at-least": {"leader_epoch": 1}},
    {"fact": "Truncated"},
    {"fact": "LogStart"},
    {"fact": "LogLoaded"},
)
"""What is seen of the topic's partitions: ISR changes, roles, truncations, deletions, starts."""

OF_SERVERS: tuple[dict[str, Any], ...] = (
    {"fact": "HostStarted", "at-least": {"incarnation": 1}},
    {"fact": "HostStopped"},
    {"fact": "ControllerActive", "fields": {"active": True}},
    {"fact": "CoordinatorLoaded"},
    {"fact": "FaultStarted"},
    {"fact": "FaultEnded"},
)
"""What is seen of processes, of the controller, of coordinators, and of other faults."""

OF_GROUPS: tuple[dict[str, Any], ...] = (
    {"fact": "GroupState"},
    {"fact": "OffsetCommitted"},
    {"fact": "ConsumerRevoked"},
)

OF_MODE: dict[str, tuple[dict[str, Any], ...]] = {
    "kraft": (
        {"fact": "BrokerRegistration", "fields": {"change": "registered"}},
        {"fact": "BrokerRegistration", "fields": {"change": "unfenced"}},
        {"fact": "BrokerRegistration", "fields": {"change": "fenced"}},
        {"fact": "RaftRole"},
    ),
    "zookeeper": (
        {"fact": "ZooKeeperSession"},
        {"fact": "ZooKeeperConnection"},
        {"fact": "ControlRequest"},
        {"fact": "ZkControllerWrite"},
    ),
}
"""What is seen of registrations, and of the quorum or the ensemble."""


@dataclass(frozen=True)
class Anchor:
    """The moment of a link. ``base`` is in ms: from t = 0, or from the fact that ``when`` names."""

    base: float
    when: dict[str, Any] | None = None

    def at(self, delay: float = 0) -> dict[str, Any]:
        """Return the keys of a fault or operation that begins ``delay`` ms later.

        Nothing begins before the fact that it waits for.
        """
        begins = {"at": ms(self.base + delay)}
        return begins if self.when is None else {"when": self.when, **begins}


def seen(rng: random.Random, mode: str, topic: str = TOPIC) -> dict[str, Any]:
    """Draw a fact to wait for, and which of its kind; ``topic`` is whose partitions are seen.

    Early ones are drawn more often: a late one may not come within the run.
    """
    group = rng.choice((OF_THE_TOPIC, OF_THE_TOPIC, OF_SERVERS, OF_GROUPS, OF_MODE[mode]))
    fact = dict(rng.choice(group))
    if group is OF_THE_TOPIC:
        fact["fields"] = {"topic": topic, **fact.get("fields", {})}
    return {**fact, "count": rng.choice((1, 1, 1, 2, 3, 5))}
