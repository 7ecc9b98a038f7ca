"""The assignors by name, and a user's own ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import ClassVar

from kafkasim.model.config.clients import ASSIGNOR_CLASSES
from kafkasim.model.group.assignors.base import (
    Assignment,
    Assignor,
    Members,
    RebalanceProtocol,
    Topics,
)
from kafkasim.model.group.assignors.range import RangeAssignor
from kafkasim.model.group.assignors.round_robin import RoundRobinAssignor
from kafkasim.model.group.assignors.sticky.assignor import CooperativeStickyAssignor, StickyAssignor

ASSIGNORS: dict[str, type[Assignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
"""Kafka's, by the name under which clients propose them in JoinGroup."""

_BY_CLASS = {ASSIGNOR_CLASSES[name]: assignor for name, assignor in ASSIGNORS.items()}


class CustomAssignor(Assignor):
    """An assignor that is a Python function, eager or, if the user says so, cooperative."""

    function: ClassVar[Callable[[Topics, Members], Assignment]]

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Return what the function returns."""
        return type(self).function(topics, members)


def assignor_class(name: str | type) -> type[Assignor]:
    """Return the assignor of a value of partition.assignment.strategy.

    A value is Kafka's class name, its name in JoinGroup, or ``module:name`` of an Assignor's class
    or of a function ``(topics, members) -> {member id: partitions}`` in Python. As in Kafka
    (ConsumerPartitionAssignor.getAssignorInstances) it may also be the class itself.

    Raises:
        ValueError: there is none of this name.
    """
    if isinstance(name, type):
        if not issubclass(name, Assignor):
            raise ValueError(f"{name.__name__} is not an Assignor")
        return name
    known = ASSIGNORS.get(name) or _BY_CLASS.get(name)
    if known is not None:
        return known
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"{name!r} is not one of {', '.join(ASSIGNORS)}, and not module:name")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from error
    if isinstance(found, type) and issubclass(found, Assignor):
        return found
    if not callable(found):
        raise ValueError(f"{name!r} is neither an Assignor nor a function")
    fields = {"name": attribute, "function": staticmethod(found)}
    return type(attribute, (CustomAssignor,), fields)


def rebalance_protocol(assignors: Sequence[type[Assignor]]) -> RebalanceProtocol:
    """Return the most advanced protocol that all assignors support.

    Raises:
        ValueError: they have none in common.
    """
    for protocol in (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER):
        if all(protocol in assignor.protocols for assignor in assignors):
            return protocol
    names = ", ".join([assignor.name for assignor in assignors])
    raise ValueError(f"{names} do not have commonly supported rebalance protocol")
