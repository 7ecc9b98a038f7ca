"""What all promises and all parts of the History share: facts come to their ``on_<Fact>`` methods.

A class that follows facts has a method ``on_Acked(self, seq, t_us, node, fact)`` for the fact
``Acked``, and so on: ``seq`` is the row of the trace, ``t_us`` the simulated time in µs, ``node``
the host that recorded the fact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.facts import FACTS

Handler = Callable[[int, int, str, Any], None]
"""``handler(seq, t_us, node, fact)``."""


class FactSource(Protocol):
    """A trace: of a run that goes on, or a stored one that is read again."""

    def subscribe(self, fact_type: type, callback: Handler) -> None:
        """Call ``callback`` for every later fact of a type, after those subscribed before."""

    def unsubscribe(self, fact_type: type, callback: Handler) -> None:
        """Stop calling ``callback``; one that is not subscribed is not an error."""


def follow(source: FactSource, part: object) -> None:
    """Subscribe every method ``on_<Fact>`` of a part.

    Parts get a fact in the order in which they follow: the History before the promises.

    Raises:
        KeyError: a method is named after no fact.
    """
    for name in dir(type(part)):
        if name.startswith("on_"):
            source.subscribe(FACTS[name.removeprefix("on_")], getattr(part, name))
