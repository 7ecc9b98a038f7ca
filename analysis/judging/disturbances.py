"""When a host could not work or be reached as usual: the faults that explain a wait.

A host is *struck* while its process is paused or down, and while a fault that names it is in force.
If a judge does not know that connections worked when a wait began, faults shortly before count,
too. After a pause, a stop or a fault of the disk the host works at once, and its connections work
or are known to be closed. But there may be an election, of up to 5 s with its timeouts
(controller.quorum.fetch.timeout.ms 2 s, election timeout 1 to 2 s, backoff 1 s). After a power loss
or a fault of links a connection may be dead without either end knowing: a request on it fails after
30 s (request.timeout.ms, replica.socket.timeout.ms, the channels to the controllers), and TCP
retransmits the packets that a cut link dropped at growing intervals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafkasim.model import facts

ELECTION_US = 5_000_000
REQUEST_TIMEOUT_US = 30_000_000
SLOW_OPERATION_US = 5_000_000
"""How long an operation may take that began while its disk was a thousand times as slow: it goes on
when the fault has ended, and the disk's other operations wait for it."""

OPEN = 1 << 62

ASKED = ("restart", "stop")
"""Faults that ask a process to stop: until it is down it works."""

CLOSED = (
    "bit-rot", "clock-drift", "clock-step", "crash", "disk-failure", "disk-full", "disk-read-error",
    "disk-stall", "flush-error", "gc-pause", "slow-disk",
)  # fmt: skip
"""Causes after which no connection is dead unseen."""


class Span:
    """A time in which a host was struck."""

    __slots__ = ("begin", "end", "healing_us")

    def __init__(self, begin: int, healing_us: int) -> None:
        self.begin = begin
        self.end = OPEN
        self.healing_us = healing_us  # how long after its end it may explain a wait


class Disturbances:
    """The times at which each host was struck, as the trace tells them."""

    def __init__(self) -> None:
        self._spans: dict[str, list[Span]] = {}  # by host
        self._open: dict[str, list[Span]] = {}  # by cause and host: what goes on
        self.servers: dict[str, None] = {}  # every host that is no client's

    def controllers(self) -> list[str]:
        """Return the hosts of controllers or of the ensemble; all if brokers are controllers."""
        own = [host for host in self.servers if host.startswith(("controller-", "zookeeper-"))]
        return own or list(self.servers)

    def struck(
        self, hosts: Iterable[str], since: int, until: int, *, healing: bool = False
    ) -> bool:
        """Return whether one of the hosts was struck at any time from ``since`` to ``until``.

        With ``healing`` the time counts, too, that connections need afterwards.
        """
        spans = self._spans
        return any(
            span.begin <= until and span.end + (span.healing_us if healing else 0) >= since
            for host in hosts
            for span in spans.get(host, ())
        )

    def killed_unseen(self, hosts: Iterable[str], since: int, until: int) -> bool:
        """Return whether a connection of theirs may have died in that time without either knowing.

        It stays so until somebody uses it.
        """
        return any(
            span.begin <= until and span.end >= since and span.healing_us == REQUEST_TIMEOUT_US
            for host in hosts
            for span in self._spans.get(host, ())
        )

    def _begin(self, what: str, host: str, t: int, healing_us: int) -> None:
        span = Span(t, healing_us)
        self._spans.setdefault(host, []).append(span)
        self._open.setdefault(f"{what} {host}", []).append(span)

    def _end(self, what: str, host: str, t: int) -> None:
        spans = self._open.get(f"{what} {host}")
        if spans:
            spans.pop().end = t

    def on_HostStarted(self, _seq: int, t: int, node: str, _fact: facts.HostStarted) -> None:
        if not node.startswith(("producer-", "consumer-", "processor-", "admin-")):
            self.servers[node] = None
        self._end("down", node, t)

    def on_HostStopped(self, _seq: int, t: int, node: str, fact: facts.HostStopped) -> None:
        self._end("pause", node, t)
        unseen = fact.reason == "power-loss"
        self._begin("down", node, t, REQUEST_TIMEOUT_US if unseen else ELECTION_US)

    def on_HostPaused(self, _seq: int, t: int, node: str, _fact: facts.HostPaused) -> None:
        if not self._open.get(f"pause {node}"):  # a pause within a pause extends it
            self._begin("pause", node, t, ELECTION_US)

    def on_HostResumed(self, _seq: int, t: int, node: str, _fact: facts.HostResumed) -> None:
        self._end("pause", node, t)

    def on_FaultStarted(self, _seq: int, t: int, _node: str, fact: facts.FaultStarted) -> None:
        for host in re.split(r"[+|]", fact.target) if fact.fault not in ASKED else ():
            healing_us = ELECTION_US if fact.fault in CLOSED else REQUEST_TIMEOUT_US
            self._begin(fact.fault, host, t, healing_us)

    def on_FaultEnded(self, _seq: int, t: int, _node: str, fact: facts.FaultEnded) -> None:
        more_us = SLOW_OPERATION_US if fact.fault == "slow-disk" else 0
        for host in re.split(r"[+|]", fact.target):
            self._end(fact.fault, host, t + more_us)
