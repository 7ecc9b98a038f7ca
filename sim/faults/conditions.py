"""Conditions: what waits for the n-th fact of a kind with given fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.facts import FACTS
from kafkasim.sim.faults.kinds import When
from kafkasim.sim.faults.roles import Roles
from kafkasim.sim.trace.recording import Trace


class Watch:
    """Calls ``met(node)`` once, while the fact of ``node`` that meets a condition is recorded."""

    def __init__(self, trace: Trace, roles: Roles, when: When, met: Callable[[str], None]) -> None:
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
        if any(self._found(fact, name) != wanted for name, wanted in when.fields):
            return False
        if any(_count(self._found(fact, name)) < least for name, least in when.least):
            return False
        if any(_count(self._found(fact, name)) > most for name, most in when.most):
            return False
        return when.node is None or node == self._roles.place(when.node, None)

    def _found(self, fact: Any, name: str) -> Any:
        if name == "topic" and not hasattr(fact, "topic"):
            return self._roles.topics.get(fact.topic_id)
        return getattr(fact, name)


def _count(value: Any) -> int:
    """Return a number, or the length of a list."""
    return len(value) if isinstance(value, tuple) else int(value)
