"""Who takes part: the groups and transactional ids of a drawn scenario, and their timers."""

from __future__ import annotations

import random
from typing import Any

NETWORK_MS = 20
"""A few round trips."""

LONGEST_MS = 5000
"""The longest time that is waited for on purpose."""


class Cast:
    """The clients of one scenario, with gaps that are drawn from their own timers.

    Whether two things meet depends on the timers of those they happen to: a session, a request, a
    transaction. So a gap is a part, or a small multiple, of one of them.
    """

    def __init__(
        self, rng: random.Random, data: dict[str, Any], mode: str, longest_ms: float = LONGEST_MS
    ) -> None:
        self.rng = rng
        self.longest_ms = longest_ms
        self.data = data
        self.mode = mode
        workload: list[dict[str, Any]] = data["workload"]
        self.brokers = [f"broker-{n + 1}" for n in range(data["cluster"]["brokers"])]
        self.consumers = [each for each in workload if each["kind"] == "consumer-group"]
        self.groups = [
            each
            for each in workload
            if each["kind"] in ("consumer-group", "processor") and "protocol" not in each
        ]
        self.processors = [each for each in workload if each["kind"] == "processor"]
        self.writers = [*self.processors, *[w for w in workload if "transactional-id" in w]]
        self._timers = [NETWORK_MS]
        for each in workload:
            own = {**each.get("config", {}), **each.get("producer-config", {})}
            names = ("session.timeout.ms", "request.timeout.ms", "transaction.timeout.ms")
            self._timers += [int(own[name]) for name in names if name in own]

    def near(self) -> float:
        """Draw a gap: up to one and a half of a timer, as often of a short as of a long one."""
        timer = self.rng.choice((NETWORK_MS, self.rng.choice(self._timers)))
        return min(timer * self.rng.uniform(0.1, 1.5), self.longest_ms / 2)

    def away(self) -> float:
        """Draw how long something is away: often shorter, and often longer, than a timer."""
        timer = self.rng.choice(self._timers)
        return max(50.0, min(timer * self.rng.uniform(0.1, 2.0), self.longest_ms))

    def hosts(self, workload: dict[str, Any]) -> list[str]:
        """Return the names of the hosts of a workload."""
        number = 0
        kind = workload["kind"]
        for each in self.data["workload"]:
            count = each.get("count", 1)
            if each is workload:
                host = kind.removesuffix("-group")
                return [f"{host}-{number + index + 1}" for index in range(count)]
            number += count if each["kind"] == kind else 0
        raise AssertionError(workload)

    def transactional_id(self) -> str:
        """Return the transactional id of one of the writers."""
        writer = self.rng.choice(self.writers)
        known: str = writer.get("transactional-id") or writer["group"]
        if writer["kind"] == "processor" or writer.get("count", 1) > 1:
            return f"{known}-{self.rng.randrange(1, writer.get('count', 1) + 1)}"
        return known

    def coordinator(self) -> str:
        """Return the role of somebody's coordinator: of a transactional id, if there is one."""
        if self.writers and (not self.groups or self.rng.random() < 0.6):
            return f"transaction-coordinator:{self.transactional_id()}"
        if self.groups:
            return f"coordinator:{self.rng.choice(self.groups)['group']}"
        return "any-broker"

    def client(self) -> str:
        """Return a selector of a client: of a writer, if there is one, or of a consumer."""
        if self.writers and self.rng.random() < 0.6:
            writer = self.rng.choice(self.writers)
            return "any-processor" if writer["kind"] == "processor" else "any-producer"
        return "any-consumer" if self.consumers else "any-producer"
