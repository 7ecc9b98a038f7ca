"""Rules of the network: each is a fault on links, a list of them is asked, the first verdict wins.

A rule sees one packet at the moment it would leave: from which host to which, for what purpose the
connection was opened, the message. It answers ``PASS``, ``DROP`` (lost: TCP retransmits, so the
direction stalls), ``HOLD`` (kept back until the rule is healed) or a delay in µs. A rule is a
context manager that heals on exit; healing twice is no error.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Self

from kafkasim.model.messages import request_name

if TYPE_CHECKING:
    from kafkasim.sim.net.network import Network

PASS = -1
DROP = -2
HOLD = -3

REQUEST = "request"
RESPONSE = "response"


def api_name(message: Any) -> str:
    """Return Kafka's API name of a request or of a response (whose Fetch is just ``Fetch``)."""
    name = type(message).__name__
    return name.removesuffix("Response") if name.endswith("Response") else request_name(message)


class Rule:
    """Base: which packets a rule is about. Subclasses say what becomes of them."""

    def __init__(
        self,
        network: Network,
        sources: tuple[str, ...],
        targets: tuple[str, ...],
        both_ways: bool,
    ) -> None:
        self._network = network
        self._sources = dict.fromkeys(sources)
        self._targets = dict.fromkeys(targets)
        self._both_ways = both_ways
        self.active = True

    def judge(self, source: str, target: str, purpose: str, message: Any, is_request: bool) -> int:
        """Return the verdict on a packet; ``message`` None is a handshake or an end."""
        if self.concerns(source, target):
            return self.verdict(purpose, message, is_request)
        return PASS

    def concerns(self, source: str, target: str) -> bool:
        """Return whether the rule is about packets from ``source`` to ``target``."""
        return (source in self._sources and target in self._targets) or (
            self._both_ways and source in self._targets and target in self._sources
        )

    def verdict(self, purpose: str, message: Any, is_request: bool) -> int:
        """Return what becomes of a packet that the rule is about."""
        return DROP

    def heal(self) -> None:
        """Remove the rule; what it held goes on now, what it dropped at the next retransmit."""
        if self.active:
            self.active = False
            self._network.remove(self)

    release = heal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


class Isolate(Rule):
    """Drops what crosses the border of a set of hosts."""

    def concerns(self, source: str, target: str) -> bool:
        return (source in self._sources) != (target in self._sources)


class Slow(Rule):
    """Adds a delay."""

    extra_us = 0

    def verdict(self, purpose: str, message: Any, is_request: bool) -> int:
        return self.extra_us


class Flaky(Rule):
    """Drops packets with a probability."""

    loss = 0.0
    rng: random.Random

    def verdict(self, purpose: str, message: Any, is_request: bool) -> int:
        return DROP if self.rng.random() < self.loss else PASS


class Select(Rule):
    """Drops or holds the packets of an API, a direction, a purpose; None is any."""

    api: str | None = None
    direction: str | None = None
    purpose: str | None = None
    then = HOLD

    def verdict(self, purpose: str, message: Any, is_request: bool) -> int:
        if self.purpose is not None and purpose != self.purpose:
            return PASS
        if self.direction is not None and is_request != (self.direction == REQUEST):
            return PASS
        if self.api is not None and (message is None or api_name(message) != self.api):
            return PASS
        if message is None and self.then == HOLD:
            return PASS  # handshakes and ends are not messages: they only wait behind them
        return self.then
