"""Rules of links: each rule is a fault; the first rule with a verdict on a packet decides.

A rule sees one packet at the moment it would leave: from which host to which, for what purpose the
connection was opened, the message. Its verdict is ``PASS``, ``DROP`` (lost: TCP retransmits, so the
direction stalls), ``HOLD`` (kept back until the rule is healed) or a delay in µs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any, Self, TypeAlias

from kafkasim.model.messages import api_of, request_name

PASS = -1
DROP = -2
HOLD = -3

REQUEST = "request"
RESPONSE = "response"

Concerns: TypeAlias = Callable[[str, str], bool]
"""(source, target) -> whether a rule is about packets from the one host to the other."""

Verdict: TypeAlias = Callable[[str, Any, bool], int]
"""(purpose, message, is it a request) -> what becomes of such a packet. Message None is a handshake
or an end."""


class Rule:
    """Which packets a rule is about and what becomes of them; a context manager that heals on exit.

    ``healed(rule)`` takes it out of the list of rules. Healing twice is no error.
    """

    def __init__(
        self, concerns: Concerns, verdict: Verdict, healed: Callable[[Rule], None]
    ) -> None:
        self._concerns = concerns
        self._verdict = verdict
        self._healed = healed
        self.active = True

    def judge(self, source: str, target: str, purpose: str, message: Any, is_request: bool) -> int:
        """Return the verdict on a packet."""
        if self._concerns(source, target):
            return self._verdict(purpose, message, is_request)
        return PASS

    def heal(self) -> None:
        """End the rule; what it held goes on now, what it dropped at the next retransmit."""
        if self.active:
            self.active = False
            self._healed(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


# ------------------------------------------------------------------------------- which packets


def one_way(a: Collection[str], b: Collection[str]) -> Concerns:
    """Concern packets from one of ``a`` to one of ``b``."""
    sources, targets = frozenset(a), frozenset(b)
    return lambda source, target: source in sources and target in targets


def both_ways(a: Collection[str], b: Collection[str]) -> Concerns:
    """Concern packets between one of ``a`` and one of ``b``."""
    there, back = one_way(a, b), one_way(b, a)
    return lambda source, target: there(source, target) or back(source, target)


def across_border(hosts: Collection[str]) -> Concerns:
    """Concern packets between one of the hosts and any other."""
    inside = frozenset(hosts)
    return lambda source, target: (source in inside) != (target in inside)


# ------------------------------------------------------------------------- what becomes of them


def drop(_purpose: str, _message: Any, _is_request: bool) -> int:
    """Lose a packet."""
    return DROP


def delay(extra_us: int) -> Verdict:
    """Delay a packet."""

    def verdict(_purpose: str, _message: Any, _is_request: bool) -> int:
        return extra_us

    return verdict


def lose_some(loss: float, rng: random.Random) -> Verdict:
    """Lose a packet with a probability."""

    def verdict(_purpose: str, _message: Any, _is_request: bool) -> int:
        return DROP if rng.random() < loss else PASS

    return verdict


def select(then: int, api: str | None, direction: str | None, purpose: str | None) -> Verdict:
    """Drop or hold (``then``) what has this API, direction and purpose; None is any.

    Handshakes and ends are not messages: they are never held, they only wait behind messages.
    """

    def verdict(of_purpose: str, message: Any, is_request: bool) -> int:
        if purpose is not None and of_purpose != purpose:
            return PASS
        if direction is not None and is_request != (direction == REQUEST):
            return PASS
        if api is not None and (message is None or not _is_of(message, api)):
            return PASS
        if message is None and then == HOLD:
            return PASS
        return then

    return verdict


def _is_of(message: Any, api: str) -> bool:
    """Return whether a request or a response is of an API.

    ``Fetch`` is every fetch, and its answers, which do not tell whose they are; ``FetchFollower``
    and ``FetchConsumer`` are requests.
    """
    kind = type(message).__name__
    return api == api_of(kind) or (kind == "FetchRequest" and api == request_name(message))
