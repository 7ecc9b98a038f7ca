"""The names of hosts and records in facts: a broker N runs on ``broker-N``."""

from __future__ import annotations


def node_of(broker: int) -> str:
    """Return the host of a broker id."""
    return f"broker-{broker}"


def broker_of(node: str) -> int:
    """Return the broker id of a host, −1 for any other host and a second process (broker-1b)."""
    number = node.rpartition("-")[2]
    return int(number) if node.startswith("broker-") and number.isdigit() else -1


APPLICATIONS = 1 << 20
"""The ids of records have the number of their producer in the upper half, from here on that of a
consumer's host: it runs an application that writes records, too."""

STREAMS = 1 << 21
"""The same of the hosts of Kafka Streams."""

MIRRORS = 1 << 24
"""From here on that number is one of a mirror's host, for the records of its internal topics."""

CLUSTER = 1 << 16
"""The numbers of the second cluster's producers are this much higher, and so on."""

OUTSIDE = 1 << 62
"""From here on, the ids of records of clients that are not simulated (``kafkasim serve``): below
bit 61, the lowest 31 bits are the sequence number of an idempotent producer."""


def record(record_id: int) -> str:
    """Return what a record is called: ``record 17 of producer-2``."""
    if record_id >= OUTSIDE:
        if record_id & 1 << 61:
            return f"record {record_id & 0xFFFF} of a batch from outside"
        return f"the record with sequence number {record_id & 0x7FFFFFFF} from outside"
    number = record_id >> 32
    kind = "producer"
    for first, other in ((MIRRORS, "mirror"), (STREAMS, "streams"), (APPLICATIONS, "consumer")):
        if number >= first:
            kind, number = other, number - first
            break
    host = f"{kind}-{number % CLUSTER}"
    if number >= CLUSTER:
        host += f" of cluster {number // CLUSTER + 1}"
    return f"record {record_id & 0xFFFFFFFF} of {host}"
