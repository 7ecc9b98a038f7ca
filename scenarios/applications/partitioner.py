"""aiokafka.partitioner: the partition of a key, by the hash that Java's client uses, too."""

from __future__ import annotations

from collections.abc import Sequence

from kafkasim.model.client.producer.partitioner import positive_hash
from kafkasim.scenarios.applications.session import session


def murmur2(data: bytes) -> int:
    """Return the hash of a key without its sign."""
    return positive_hash(data)


class DefaultPartitioner:
    """Keys go by their hash; a record without one to any partition that has a leader."""

    @classmethod
    def __call__(
        cls, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        """Return the partition of a record."""
        if key is None:
            return session().rng.choice(list(available or all_partitions))
        return all_partitions[murmur2(key) % len(all_partitions)]
