"""The focus of a shape: one topic, three brokers and a few seconds of a drawn scenario.

A shape concerns three brokers, and partitions that have these brokers as replicas in every order.
Each of the three leads some partitions and follows in others, so a fault on any of them hits both
roles.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import permutations
from typing import Any

from kafkasim.scenarios.searching.draw_faults import METADATA_PURPOSE

TOPIC = "orders"

DELAYED = (
    {"api": "Fetch", "direction": "response"},
    {"api": "Fetch", "direction": "response"},
    {"api": "FetchFollower", "direction": "request"},
    {"purpose": "replica-fetch"},
)
"""What of the replication is delayed: responses, requests, or both."""


def ms(time: float) -> str:
    """Return milliseconds as a duration of the scenario language, at least 1 ms."""
    return f"{max(1, int(time))}ms"


class Focus:
    """A drawn scenario in the making; ``data`` is changed in place.

    All times are milliseconds after the cluster is ready.
    """

    def __init__(self, rng: random.Random, data: dict[str, Any], mode: str) -> None:
        self.rng = rng
        self.data = data
        self.mode = mode
        self.cluster: dict[str, Any] = data["cluster"]
        self.config: dict[str, Any] = self.cluster["config"]
        self.faults: list[dict[str, Any]] = []
        self.operations: list[dict[str, Any]] = []
        self.brokers: list[int] = [1, 2, 3]  # the three that the shape plays on
        self.orders: list[tuple[int, ...]] = []  # each partition's replicas, preferred leader first
        self.duration_ms = 0

    @classmethod
    def beside(cls, rng: random.Random, data: dict[str, Any], mode: str) -> Focus:
        """Return the focus of what is added to a drawn scenario: its plan and settings stay."""
        focus = cls(rng, data, mode)
        focus.faults = data["faults"]
        focus.operations = data.setdefault("operations", [])
        known = range(1, focus.cluster["brokers"] + 1)
        focus.brokers = rng.sample(known, min(3, len(known)))
        focus.orders = [tuple(replicas) for replicas in data["topics"][0].get("assignment", ())]
        return focus

    def prepare(self, brokers: int, duration: int) -> None:
        """Set up a cluster with short timers, mostly one controller, no unclean elections."""
        rng, config = self.rng, self.config
        self.cluster["brokers"] = brokers
        self.brokers = rng.sample(range(1, brokers + 1), 3)
        self.duration_ms = duration
        self.data["duration"] = ms(duration)
        config["replica.lag.time.max.ms"] = rng.choice((1000, 2000, 10_000))
        config["broker.session.timeout.ms"] = rng.choice((2000, 3000))
        config["broker.heartbeat.interval.ms"] = 500
        if self.mode == "kraft":
            config["metadata.max.idle.interval.ms"] = 100
            self.cluster["combined"] = 0
            if rng.random() < 0.75:
                self.cluster["controllers"] = 1
                config["controller.quorum.fetch.timeout.ms"] = 30_000
                config["controller.quorum.request.timeout.ms"] = 30_000
        self.data["topics"][0]["config"].pop("unclean.leader.election.enable", None)

    def assign_all_orders(self, factor: int, partitions: int) -> None:
        """Give the topic partitions whose replicas are the brokers in as many orders as possible.

        ``factor`` is the replication factor: two or three of the three brokers.
        """
        rng = self.rng
        orders = list(permutations(self.brokers, factor))
        rng.shuffle(orders)
        self.orders = [orders[number % len(orders)] for number in range(partitions)]
        self._topic(factor)

    def assign(self, orders: Iterable[tuple[int, ...]]) -> None:
        """Give the topic one partition for each of these lists of replicas."""
        self.orders = list(orders)
        self._topic(len(self.orders[0]))

    def _topic(self, factor: int) -> None:
        topic = self.data["topics"][0]
        topic["partitions"] = len(self.orders)
        topic["replication-factor"] = factor
        topic["assignment"] = [list(order) for order in self.orders]
        least = topic["config"].get("min.insync.replicas", 1)
        topic["config"]["min.insync.replicas"] = min(least, factor)

    def producers(self, stop: float | None = None, **config: Any) -> None:
        """Replace the workloads of producers by one, which sends until ``stop`` or to the end."""
        rng = self.rng
        producer: dict[str, Any] = {
            "kind": "producer",
            "count": rng.choice((1, 1, 2)),
            "rate": f"{rng.choice((10, 20, 40))}/s",
            "config": {
                "acks": rng.choice(("all", "all", "1")),
                "request.timeout.ms": rng.choice((1000, 2000)),
                "delivery.timeout.ms": 8000,
                "metadata.max.age.ms": rng.choice((500, 1000, 3000)),
                **config,
            },
        }
        if rng.random() < 0.3:
            producer["config"]["batch.size"] = 1
        if stop is not None:
            producer["stop"] = ms(stop)
        others = [each for each in self.data["workload"] if each["kind"] != "producer"]
        self.data["workload"] = [producer, *others[:1]]

    # Faults.

    def fault(self, kind: str, at: float | None, lasts: float | None = None, **more: Any) -> None:
        """Add a fault; with ``when`` in ``more``, ``at`` is the delay after the fact."""
        fault: dict[str, Any] = {"kind": kind, **more}
        if at is not None:
            fault["at"] = ms(at)
        if lasts is not None:
            fault["for"] = ms(lasts)
        self.faults.append(fault)

    def delay_replication(
        self, one: int, others: Iterable[int], at: float | None, lasts: float, **more: Any
    ) -> None:
        """Hold the fetches, or the responses to them, between broker ``one`` and ``others``."""
        peers = [f"broker-{other}" for other in others]
        how = self.rng.choice(DELAYED)
        self.fault("hold", at, lasts, node=f"broker-{one}", peers=peers, **how, **more)

    def stall_metadata(self, broker: int, at: float | None, lasts: float, **more: Any) -> None:
        """Hold a broker's metadata connection, or only its requests on it.

        When only its requests were held, the broker gets all that it missed in one response.
        """
        how = {"purpose": METADATA_PURPOSE[self.mode]}
        if self.rng.random() < 0.6:
            how["direction"] = "request"
        self.fault("hold", at, lasts, node=f"broker-{broker}", **{**how, **more})

    def condition(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Return a condition on the first, second or fourth fact of a kind."""
        count = self.rng.choice((1, 1, 1, 2, 4))
        return {"fact": kind, "fields": fields, "count": count}

    def partition_change(self, *reasons: str) -> dict[str, Any]:
        """Return the condition that a partition of the topic changed for one of the reasons."""
        return self.condition("PartitionChanged", topic=TOPIC, reason=self.rng.choice(reasons))

    # Operations.

    def move_leaders(self, at: float, orders: list[tuple[int, ...]] | None = None) -> None:
        """Move leaderships by a preferred election.

        Shortly before, reassignments give most partitions another preferred leader; with
        ``orders`` they give every partition the order of replicas there.
        """
        rng = self.rng
        before = at - rng.randrange(100, 400)
        for partition, order in enumerate(self.orders):
            if orders is not None:
                wanted = orders[partition]
            elif rng.random() < 0.15:
                continue
            else:
                shuffled = rng.sample(order, len(order))
                while shuffled[0] == order[0]:
                    rng.shuffle(shuffled)
                wanted = tuple(shuffled)
            if wanted != order:
                self.reassign(partition, wanted, before)
        self.operations.append({"kind": "elect-leader", "topic": TOPIC, "at": ms(at)})

    def reassign(self, partition: int, replicas: tuple[int, ...], at: float, **more: Any) -> None:
        """Change the replicas of a partition, or their order; with ``when`` in ``more``, ``at`` is
        the delay after the fact."""
        if partition < len(self.orders):
            self.orders[partition] = replicas
        self.operations.append({
            "kind": "reassign", "topic": TOPIC, "partition": partition,
            "replicas": list(replicas), "at": ms(at), **more,
        })  # fmt: skip

    def install(self) -> None:
        """Put the faults and operations into the scenario, in place of those that it had."""
        self.data["faults"] = self.faults
        self.data["operations"] = self.operations
