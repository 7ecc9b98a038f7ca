"""Conditions: they are met by the n-th fact or message of a kind with given fields."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from kafkasim.model.facts import FACTS
from kafkasim.model.messages import api_of
from kafkasim.sim.faults.kinds import When
from kafkasim.sim.faults.roles import Roles
from kafkasim.sim.net.link_rules import REQUEST, RESPONSE
from kafkasim.sim.net.network import Network
from kafkasim.sim.trace.recording import Facts


class Watch:
    """Calls ``met(node)`` once, while the fact of ``node`` that meets a condition is recorded."""

    def __init__(self, trace: Facts, roles: Roles, when: When, met: Callable[[str], None]) -> None:
        self._trace = trace
        self._roles = roles
        self._when = when
        self._met = met
        self._left = when.count
        self._type = FACTS[when.fact]
        trace.subscribe(self._type, self._on_fact)

    def _on_fact(self, _: int, __: int, node: str, fact: Any) -> None:
        if not self._left or not self._meets(node, fact):
            return
        self._left -= 1
        if not self._left:
            self._trace.unsubscribe(self._type, self._on_fact)
            self._met(node)

    def _meets(self, node: str, fact: Any) -> bool:
        """Return whether a fact has the wanted fields and its host the wanted name or role.

        The role is the one that the host has with this fact: roles follow the trace first.
        """
        when = self._when
        if not _fits(when, lambda name: self._found(fact, name)):
            return False
        return when.node is None or node == self._roles.place(when.node, None)

    def _found(self, fact: Any, name: str) -> Any:
        if name == "topic" and not hasattr(fact, "topic"):
            return self._roles.topics.get(fact.topic_id)
        return getattr(fact, name)


class MessageWatch:
    """Calls ``met(client)`` once, when the message that meets a condition is given to the network.

    The client is the host that sent the request, or that waits for the response, by its name in the
    ``domain``: hosts of others meet no condition of a part of a world. What a host sends to itself
    does not take the network and meets no condition.
    """

    def __init__(
        self,
        network: Network,
        roles: Roles,
        when: When,
        met: Callable[[str], None],
        domain: str = "",
    ) -> None:
        self._network = network
        self._roles = roles
        self._when = when
        self._met = met
        self._left = when.count
        self._domain = domain
        self._api = when.request or when.response
        self._direction = REQUEST if when.request else RESPONSE
        network.wires = (*network.wires, self)

    def record(
        self,
        _t_us: int,
        source: str,
        target: str,
        _purpose: str,
        direction: str,
        _connection: int,
        _correlation: int,
        _size: int,
        message: Any,
    ) -> None:
        """See one message (:class:`kafkasim.sim.net.network.Wire`)."""
        if direction != self._direction or not self._left:
            return
        if api_of(type(message).__name__) != self._api:
            return
        card = source if direction == REQUEST else target
        if not card.startswith(self._domain):
            return
        client, when = card.removeprefix(self._domain), self._when
        if when.node is not None and client != self._roles.place(when.node, None):
            return
        if not _fits(when, lambda name: _plain(getattr(message, name))):
            return
        self._left -= 1
        if not self._left:
            self._network.wires = tuple([each for each in self._network.wires if each is not self])
            self._met(client)


def _fits(when: When, found: Callable[[str], Any]) -> bool:
    """Return whether the fields that ``found`` gives by name have the wanted values and bounds."""
    if any(found(name) != wanted for name, wanted in when.fields):
        return False
    if any(_count(found(name)) < least for name, least in when.least):
        return False
    return all(_count(found(name)) <= most for name, most in when.most)


def _plain(value: Any) -> Any:
    """Return a field of a message as a scenario names it: an error, for one, by its name."""
    return value.name if isinstance(value, Enum) else value


def _count(value: Any) -> int:
    """Return a number, or the length of a list."""
    return len(value) if isinstance(value, tuple) else int(value)
