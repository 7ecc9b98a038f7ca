"""The focus of a drawn run: a few small faults around one place and time (see scenarios/searching/swarm.py).

A race needs its parts together: a leadership that moves while one link is late and one broker hears
no metadata. Spread evenly they hardly ever meet. So most seeds play everything on three
brokers, in some seconds, over partitions that have those brokers in every order: whoever a fault
hits, he leads some of them and follows in others. A :class:`Focus` is what the shapes draw with;
the shapes are in swarm_shapes (replicas) and swarm_control (controllers).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import permutations
from typing import Any

TOPIC = "orders"

LATE = (
    {"api": "Fetch", "direction": "response"},
    {"api": "Fetch", "direction": "response"},
    {"api": "FetchFollower", "direction": "request"},
    {"purpose": "replica-fetch"},
)
"""How replicas do not get each other's records: replies late, requests late, all of it."""

METADATA = {"kraft": "raft-fetch", "zookeeper": "controller"}


def ms(time: float) -> str:
    """Return a time as a scenario has it."""
    return f"{max(1, int(time))}ms"


class Focus:
    """A drawn scenario in the making: ``data`` is changed in place. All times are in ms."""

    def __init__(self, rng: random.Random, data: dict[str, Any], mode: str) -> None:
        self.rng = rng
        self.data = data
        self.mode = mode
        self.cluster: dict[str, Any] = data["cluster"]
        self.config: dict[str, Any] = self.cluster["config"]
        self.faults: list[dict[str, Any]] = []
        self.operations: list[dict[str, Any]] = []
        self.three: list[int] = [1, 2, 3]
        self.orders: list[tuple[int, ...]] = []  # each partition's replicas, as assigned last
        self.end = 0

    def prepare(self, brokers: int, duration: int) -> None:
        """Set the cluster up: quick timers, one controller mostly, nothing else that breaks."""
        rng, config = self.rng, self.config
        self.cluster["brokers"] = brokers
        self.three = rng.sample(range(1, brokers + 1), 3)
        self.end = duration
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

    def everybody(self, factor: int, partitions: int) -> None:
        """Give the topic that many partitions: with three replicas or two of the three brokers, in
        as many orders as there are."""
        rng = self.rng
        orders = list(permutations(self.three, factor))
        rng.shuffle(orders)
        self.orders = [orders[number % len(orders)] for number in range(partitions)]
        self._topic(factor)

    def assigned(self, orders: Iterable[tuple[int, ...]]) -> None:
        """Give the topic these partitions."""
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
        """Have one workload of producers write, steadily or until ``stop``."""
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
        """Add a fault; with ``when`` in ``more``, ``at`` is the delay behind the fact."""
        fault: dict[str, Any] = {"kind": kind, **more}
        if at is not None:
            fault["at"] = ms(at)
        if lasts is not None:
            fault["for"] = ms(lasts)
        self.faults.append(fault)

    def late(self, one: int, others: Iterable[int], at: float | None, lasts: float,
             **more: Any) -> None:  # fmt: skip
        """Hold what replicas fetch from each other, between ``one`` and ``others``."""
        peers = [f"broker-{other}" for other in others]
        how = self.rng.choice(LATE)
        self.fault("hold", at, lasts, node=f"broker-{one}", peers=peers, **how, **more)

    def deaf(self, broker: int, at: float | None, lasts: float, **more: Any) -> None:
        """Hold what tells a broker of new metadata, or just what it asks: then it hears all of it
        at once."""
        how = {"purpose": METADATA[self.mode]}
        if self.rng.random() < 0.6:
            how["direction"] = "request"
        self.fault("hold", at, lasts, node=f"broker-{broker}", **{**how, **more})

    def fact(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Return a condition: now and then not the first fact of its kind, but a later one."""
        count = self.rng.choice((1, 1, 1, 2, 4))
        return {"fact": kind, "fields": fields, "count": count}

    def change(self, *reasons: str) -> dict[str, Any]:
        """Return the condition that a partition of the topic changed for one of the reasons."""
        return self.fact("PartitionChanged", topic=TOPIC, reason=self.rng.choice(reasons))

    # What the operator does.

    def move(self, at: float, orders: list[tuple[int, ...]] | None = None) -> None:
        """Move leaderships at a time: shortly before, who is preferred changes for most partitions
        (to ``orders``, where given)."""
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

    def reassign(self, partition: int, replicas: tuple[int, ...], at: float) -> None:
        """Change the replicas of a partition, or their order."""
        if partition < len(self.orders):
            self.orders[partition] = replicas
        self.operations.append({
            "kind": "reassign", "topic": TOPIC, "partition": partition,
            "replicas": list(replicas), "at": ms(at),
        })  # fmt: skip

    def done(self) -> None:
        """Put faults and operations into the scenario, in place of what it had."""
        self.data["faults"] = self.faults
        self.data["operations"] = self.operations
