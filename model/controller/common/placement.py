"""Places the replicas of new partitions, after Kafka's StripedReplicaPlacer.

The leaders of successive partitions go round the racks and, within a rack, round its unfenced
brokers. The followers alternate over the other racks. A fenced broker never leads; it may follow if
its rack has no unfenced broker left. The order of the racks and of their brokers comes from the
controller's own random stream. It is drawn again after as many partitions as there are unfenced
brokers, so that stripes do not repeat.

Two differences. Kafka begins with the sorted order at random starting points and shuffles it only
then. And each of its racks goes one broker further with every partition that it has a replica of
(BrokerList.next); with as many racks as brokers in a rack, one broker of each rack leads all
partitions until the shuffle. Here the racks go further once in each round of leaders.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.values import value


@value
class UsableBroker:
    """A registered broker that is not shutting down."""

    id: int
    rack: str | None
    fenced: bool


def placement_problem(replication_factor: int, brokers: list[UsableBroker]) -> str | None:
    """Return why so many replicas cannot be placed (INVALID_REPLICATION_FACTOR), or None."""
    if len(brokers) < replication_factor:
        return (
            f"Unable to replicate the partition {replication_factor} time(s): The target"
            f" replication factor of {replication_factor} cannot be reached because only"
            f" {len(brokers)} broker(s) are registered."
        )
    if all(broker.fenced for broker in brokers):
        return (
            f"Unable to replicate the partition {replication_factor} time(s):"
            " All brokers are currently fenced."
        )
    return None


def place(
    rng: random.Random, num_partitions: int, replication_factor: int, brokers: list[UsableBroker]
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, the preferred leader first."""
    problem = placement_problem(replication_factor, brokers)
    assert problem is None, problem
    racks = _Racks(rng, brokers)
    return [racks.place(replication_factor) for _ in range(num_partitions)]


def assignment_problem(replicas: Sequence[int], image: MetadataImage) -> str | None:
    """Return why an operator cannot assign these replicas, or None if they are fine
    (validateManualPartitionAssignment)."""
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    if len(dict.fromkeys(replicas)) != len(replicas):
        return f"The manual partition assignment includes duplicates: {tuple(replicas)}."
    for broker_id in replicas:
        if broker_id not in image.brokers:
            return (
                f"The manual partition assignment includes broker {broker_id}, but no such broker"
                " is registered."
            )
    return None


class _Racks:
    """Where the next stripe begins (RackList)."""

    __slots__ = ("_epoch", "_offset", "_racks", "_rng", "_unfenced")

    def __init__(self, rng: random.Random, brokers: list[UsableBroker]) -> None:
        by_rack: dict[str, tuple[list[int], list[int]]] = {}
        for broker in sorted(brokers, key=lambda each: each.id):
            unfenced, fenced = by_rack.setdefault(broker.rack or "", ([], []))
            (fenced if broker.fenced else unfenced).append(broker.id)
        self._rng = rng
        self._racks = [by_rack[name] for name in sorted(by_rack)]
        self._unfenced = sum([len(unfenced) for unfenced, _ in self._racks])
        self._epoch = 0
        self._offset = 0
        self._shuffle()

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the next partition's replicas."""
        if self._epoch == self._unfenced:
            self._shuffle()
        racks = self._racks
        step = self._epoch // len(racks)
        queues = [_rotated(unfenced, step) + _rotated(fenced, step) for unfenced, fenced in racks]
        first = self._offset % len(racks)
        while not racks[first][0]:  # the leader must be unfenced
            first = (first + 1) % len(racks)
        replicas = [queues[first].pop(0)]
        rack = first
        while len(replicas) < replication_factor:
            rack = (rack + 1) % len(racks)
            if queues[rack]:
                replicas.append(queues[rack].pop(0))
        self._epoch += 1
        self._offset += 1
        return tuple(replicas)

    def _shuffle(self) -> None:
        self._epoch = 0
        self._offset = 0
        self._rng.shuffle(self._racks)
        for unfenced, fenced in self._racks:
            self._rng.shuffle(unfenced)
            self._rng.shuffle(fenced)


def _rotated(brokers: list[int], by: int) -> list[int]:
    if not brokers:
        return []
    start = by % len(brokers)
    return brokers[start:] + brokers[:start]
