"""A share partition of group ``workers`` and its log at the end of a run, for judges of stalls."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row

NODE, PARTITION = "broker-1", ("workers", "id", 0)
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
TOPIC: Row = ("controller-1", facts.TopicCreated(0, "id", "orders", 1, 3, 1))
LOADED: Row = (NODE, facts.SharePartitionLoaded(*PARTITION, 1, 1, 4))


def final(
    *ranges: tuple[int, int, int], gap: int, start: int = 4, node: str = NODE, epoch: int = 1
) -> Row:
    """The leader's state: each range by its first and last offset and its state."""
    firsts, lasts, states = zip(*ranges, strict=True)
    of = (start, lasts[-1], gap, firsts, lasts, states, tuple([1] * len(ranges)))
    return node, facts.FinalSharePartition(*PARTITION, epoch, *of)


def log(*batches: tuple[int, int]) -> Row:
    """The leader's log: each batch by its base offset and the offset after it."""
    bases, following = zip(*batches, strict=True)
    same = tuple([0] * len(batches))
    return NODE, facts.FinalReplica(
        "id", 0, True, 1, 0, 12, 12, 12, (1, 0), bases, following, same, same, same, same, ()
    )
