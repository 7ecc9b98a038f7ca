"""Assignors that the leader of a classic group runs: Kafka's four, and those of a user.

:data:`ASSIGNORS` has Kafka's by name, and :func:`assignor_class` finds one by a value of
``partition.assignment.strategy``.
"""

from __future__ import annotations

from kafkasim.model.group.assignors.base import (
    Assignment,
    Assignor,
    Members,
    RebalanceProtocol,
    Topics,
    without_racks,
)
from kafkasim.model.group.assignors.names import (
    ASSIGNORS,
    CustomAssignor,
    assignor_class,
    rebalance_protocol,
)

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "CustomAssignor",
    "Members",
    "RebalanceProtocol",
    "Topics",
    "assignor_class",
    "rebalance_protocol",
    "without_racks",
]
