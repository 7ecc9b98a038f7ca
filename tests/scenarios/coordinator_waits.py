"""Lines of stalled runs that wait for a coordinator, and facts about partitions."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row

GROUPS, STATES, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
GROUP = "group billing is at 0 of 4 in orders-0 (last read by nobody)"
COMMIT = "group billing was given records below 4 of orders-0 and has committed 0"
SHARE = "share group billing is at 0 of 4 in orders-0"
CLIENT = "producer-1 has records that are neither acknowledged nor failed"
PROCESSOR = "producer-1 handles what it was given"
OPEN = "orders-0 has an open transaction of producer id 7 from offset 3 on"

WAITS = [
    (GROUP, GROUPS),
    (COMMIT, GROUPS),
    (SHARE, GROUPS),
    (SHARE, SHARES),
    (CLIENT, STATES),
    (PROCESSOR, STATES),
    (OPEN, STATES),
]
"""Each line, with the topic of a coordinator that it waits for."""

BEGUN: Row = (
    "broker-1",
    facts.TransactionState("writer", 7, 0, "Empty", "Ongoing", ("orders-0",), 1, 0, "add"),
)


def topics(min_isr: int) -> list[Row]:
    """The coordinators' topics and ``orders``, each of one partition with three replicas."""
    return [
        ("controller-1", facts.TopicCreated(1, topic, topic, 1, 3, min_isr))
        for topic in (GROUPS, STATES, SHARES, "orders")
    ]


def home(topic: str, *isr: int, leader: int = 1, epoch: int = 0) -> Row:
    """Partition 0 of a topic changes."""
    change = facts.PartitionChanged(
        5, topic, 0, leader, 1, epoch, isr, (1, 2, 3), "lag", unclean=False
    )
    return "controller-1", change


class Gone:
    """A judge that knows why some brokers are down for ever."""

    def __init__(self, why: str, *brokers: int) -> None:
        self._lines = {f"broker-{broker} is down": why for broker in brokers}

    def excuse(self, line: str) -> str:
        """Return why, of the line that calls one of them down, else ""."""
        return self._lines.get(line, "")
