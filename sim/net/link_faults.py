"""The fault verbs of the network: what breaks links, and heals them again.

A place is a host, a rack, a data centre, or several of them. Every verb but ``reset`` and
``half_open`` returns its rule, which heals by ``heal()`` or as a context manager. In a part of a
world, places are those of the part, and what the rest of the world does is left alone.
"""

from __future__ import annotations

from kafkasim.sim.net.link_rules import (
    DROP,
    HOLD,
    Concerns,
    Rule,
    Verdict,
    across_border,
    both_ways,
    delay,
    drop,
    lose_some,
    one_way,
    select,
)
from kafkasim.sim.net.network import Network
from kafkasim.sim.net.sockets import Socket
from kafkasim.sim.streams import Streams

Place = str | tuple[str, ...] | list[str]


class LinkFaults:
    """The verbs. ``rules`` are those that are active, the first to be asked first."""

    def __init__(self, network: Network, streams: Streams, domain: str = "") -> None:
        self.rules: list[Rule] = []
        self._domain = domain  # of the part's hosts, with its dot
        self._network = network
        self._topology = network.paths.topology
        self._streams = streams
        self._flaky = 0

    def partition(self, a: Place, b: Place) -> Rule:
        """Lose everything between two places."""
        return self._add(self._both_ways(a, b), drop)

    def partition_oneway(self, a: Place, b: Place) -> Rule:
        """Lose everything from ``a`` to ``b``; the other direction works."""
        return self._add(one_way(self._cards(a), self._cards(b)), drop)

    def isolate(self, nodes: Place) -> Rule:
        """Lose everything between these and all others."""
        return self._add(across_border(self._cards(nodes)), drop)

    def slow(self, a: Place, b: Place, extra_us: int) -> Rule:
        """Delay everything between two places."""
        return self._add(self._both_ways(a, b), delay(extra_us))

    def flaky(self, a: Place, b: Place, loss: float) -> Rule:
        """Lose each packet between two places with a probability."""
        self._flaky += 1
        rng = self._streams.stream("flaky", self._flaky)
        return self._add(self._both_ways(a, b), lose_some(loss, rng))

    def hold(
        self,
        a: Place,
        b: Place,
        *,
        api: str | None = None,
        direction: str | None = None,
        purpose: str | None = None,
    ) -> Rule:
        """Keep back messages between two places until the rule is healed.

        Args:
            a: one place.
            b: the other place.
            api: of messages that are held, as Kafka names it (``Fetch``); None is any.
            direction: ``request`` or ``response``; None is both.
            purpose: of the connection; None is any. All behind a held message waits.
        """
        return self._add(self._both_ways(a, b), select(HOLD, api, direction, purpose))

    def cut(
        self, a: Place, b: Place, *, purpose: str | None = None, api: str | None = None
    ) -> Rule:
        """Lose what travels between two places on the connections of one purpose."""
        return self._add(self._both_ways(a, b), select(DROP, api, None, purpose))

    def release(self, rule: Rule) -> None:
        """Let go what a rule held, in order."""
        rule.heal()

    def reset(self, a: Place, b: Place) -> None:
        """Reset every connection between two places: both ends hear it at once."""
        for socket in self._between(a, b):
            self._network.end_both(socket)

    def half_open(self, a: Place, b: Place) -> None:
        """Lose whatever is sent from now on over the present connections between two places.

        Neither end hears of it; new connections work.
        """
        for socket in self._between(a, b):
            assert socket.peer is not None
            for end in (socket, socket.peer):
                end.half_open = end.cut_off = True

    def heal(self) -> None:
        """Heal all rules."""
        for rule in list(self.rules):
            rule.heal()

    def resolve(self, place: Place) -> tuple[str, ...]:
        """Return the host names that a place stands for, also by an endpoint's address.

        Raises:
            LookupError: a name is no host, rack, data centre or address.
        """
        domain = self._domain
        return tuple([name.removeprefix(domain) for name in self._cards(place)])

    def _cards(self, place: Place) -> tuple[str, ...]:
        """Return the names of the cards in a place."""
        names: dict[str, None] = {}
        for name in (place,) if isinstance(place, str) else place:
            card = self._network.endpoints.get(self._domain + name)
            for found in (card.name,) if card is not None else self._topology.hosts(name):
                if found.startswith(self._domain):
                    names[found] = None
        return tuple(names)

    def _both_ways(self, a: Place, b: Place) -> Concerns:
        return both_ways(self._cards(a), self._cards(b))

    def _between(self, a: Place, b: Place) -> list[Socket]:
        return self._network.sockets_between(self._cards(a), self._cards(b))

    def _add(self, concerns: Concerns, verdict: Verdict) -> Rule:
        rule = Rule(concerns, verdict, self._heal)
        for rules in (self.rules, self._network.paths.rules):
            rules.append(rule)
        return rule

    def _heal(self, rule: Rule) -> None:
        for rules in (self.rules, self._network.paths.rules):
            rules.remove(rule)
        self._network.let_go()
