"""The names of hosts in facts: a broker N runs on ``broker-N``."""

from __future__ import annotations


def node_of(broker: int) -> str:
    """Return the host of a broker id."""
    return f"broker-{broker}"


def broker_of(node: str) -> int:
    """Return the broker id of a host, −1 for any other host and a second process (broker-1b)."""
    number = node.rpartition("-")[2]
    return int(number) if node.startswith("broker-") and number.isdigit() else -1
