"""The fault verbs of the network. Places are a host, a rack, a data centre, or several of them.

Every verb but ``reset`` and ``half_open`` returns its rule, which heals by ``heal()`` or as a
context manager. A later rule is asked after an earlier one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.sim.net.link_rules import DROP, HOLD, PASS, Flaky, Isolate, Rule, Select, Slow
from kafkasim.sim.net.topology import Topology
from kafkasim.sim.streams import Streams

if TYPE_CHECKING:
    from kafkasim.sim.host.host import Host
    from kafkasim.sim.net.sockets import Socket

Place = str | tuple[str, ...] | list[str]


class Verbs:
    """The list of rules and how to add to it."""

    def __init__(self, topology: Topology, streams: Streams) -> None:
        self.topology = topology
        self.streams = streams
        self.hosts: dict[str, Host] = {}
        self.rules: list[Rule] = []
        self._flaky = 0

    def judge(self, source: str, target: str, purpose: str, message: Any, is_request: bool) -> int:
        """Return the first verdict of the rules on a packet, or PASS."""
        for rule in self.rules:
            verdict = rule.judge(source, target, purpose, message, is_request)
            if verdict != PASS:
                return verdict
        return PASS

    def partition(self, a: Place, b: Place) -> Rule:
        """Lose everything between two places."""
        return self._add(Rule(self._network(), self.resolve(a), self.resolve(b), True))

    def partition_oneway(self, a: Place, b: Place) -> Rule:
        """Lose everything from ``a`` to ``b``; the other direction works."""
        return self._add(Rule(self._network(), self.resolve(a), self.resolve(b), False))

    def isolate(self, nodes: Place) -> Rule:
        """Lose everything between these and all others."""
        return self._add(Isolate(self._network(), self.resolve(nodes), (), True))

    def slow(self, a: Place, b: Place, extra_us: int) -> Rule:
        """Delay everything between two places."""
        rule = Slow(self._network(), self.resolve(a), self.resolve(b), True)
        rule.extra_us = extra_us
        return self._add(rule)

    def flaky(self, a: Place, b: Place, loss: float) -> Rule:
        """Lose each packet between two places with a probability."""
        rule = Flaky(self._network(), self.resolve(a), self.resolve(b), True)
        rule.loss = loss
        self._flaky += 1
        rule.rng = self.streams.stream("flaky", self._flaky)
        return self._add(rule)

    def hold(
        self,
        a: Place,
        b: Place,
        *,
        api: str | None = None,
        direction: str | None = None,
        purpose: str | None = None,
    ) -> Rule:
        """Keep back messages between two places, by API name, direction, purpose; see release.

        ``direction`` is ``request`` or ``response``. All behind a held message waits.
        """
        return self._add(self._select(a, b, api, direction, purpose, HOLD))

    def cut(
        self, a: Place, b: Place, *, purpose: str | None = None, api: str | None = None
    ) -> Rule:
        """Lose what travels between two places on the connections of one purpose."""
        return self._add(self._select(a, b, api, None, purpose, DROP))

    def release(self, rule: Rule) -> None:
        """Let go what a rule held, in order."""
        rule.heal()

    def reset(self, a: Place, b: Place) -> None:
        """Reset every connection between two places: both ends hear it at once."""
        for socket in self._between(a, b):
            self._network().end_both(socket)

    def half_open(self, a: Place, b: Place) -> None:
        """Lose whatever is sent from now on over the present connections between two places.

        Neither end hears of it; new connections work.
        """
        for socket in self._between(a, b):
            assert socket.peer is not None
            for end in (socket, socket.peer):
                end.half_open = end.cut_off = True

    def heal(self) -> None:
        """Remove all rules."""
        for rule in list(self.rules):
            rule.heal()

    def resolve(self, place: Place) -> tuple[str, ...]:
        """Return the host names that a place stands for, also by an endpoint's address."""
        names: dict[str, None] = {}
        for name in (place,) if isinstance(place, str) else place:
            host = self._network().endpoints.get(name)
            for found in (host.name,) if host is not None else self.topology.hosts(name):
                names[found] = None
        return tuple(names)

    def _select(
        self,
        a: Place,
        b: Place,
        api: str | None,
        direction: str | None,
        purpose: str | None,
        then: int,
    ) -> Select:
        rule = Select(self._network(), self.resolve(a), self.resolve(b), True)
        rule.api, rule.direction, rule.purpose, rule.then = api, direction, purpose, then
        return rule

    def _between(self, a: Place, b: Place) -> list[Socket]:
        found: list[Socket] = self._network().sockets_between(self.resolve(a), self.resolve(b))
        return found

    def _network(self) -> Any:
        return self

    def _add(self, rule: Rule) -> Rule:
        self.rules.append(rule)
        return rule
