"""Stalls behind a broker that has given up its registration and ended.

A process that has not registered for initial.broker.registration.timeout.ms ends itself
(BrokerLifecycleManager.RegistrationTimeoutEvent); nobody starts it again but an operator.
Controllers refuse it with DUPLICATE_BROKER_REGISTRATION as long as the process before it has a
valid session (ClusterControlManager.registerBroker). A killed process has one for
broker.session.timeout.ms, which each new active controller begins anew
(ClusterControlManager.activate). The broker's attempts back off, up to another session
(BrokerLifecycleManager.resendExponentialBackoff). So it may give up, although all is well, until
two sessions have passed since the last election, or since faults kept it from the controllers.
"""

from __future__ import annotations

import re

from kafkasim.analysis.judging.harm.truth.nodes import ROUNDING_US, Nodes
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

LATE_SESSION = "late-session"

_DOWN = re.compile(r"broker-(\d+) is down$")
_SHORT = re.compile(r"\S+: ISR \[(.*)\] of \[(.+)\]$")
_SESSION = "broker.session.timeout.ms"


class Registrations:
    """Follows which brokers registered, and which ended because they could not.

    ``timeout_us`` is initial.broker.registration.timeout.ms.
    """

    def __init__(self, trace: FactSource, timeout_us: int) -> None:
        self._nodes = Nodes(trace)
        self._timeout_us = timeout_us
        self._waiting: dict[int, int] = {}  # broker -> since when, until it registers
        self._ended: dict[int, tuple[int, int]] = {}  # broker -> (when, when it was to register)
        self._offset = -1  # of the last registration: a new controller records earlier ones again
        self._undisturbed = 0  # since when no controller was elected and no fault ended
        self._faults = 0  # in force
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.BrokerRegistration, self._on_registration)
        trace.subscribe(facts.ControllerActive, self._on_controller)
        trace.subscribe(facts.FaultStarted, self._on_fault)
        trace.subscribe(facts.FaultEnded, self._on_healed)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        absent = self.absent(line)
        return LATE_SESSION if absent and all(map(self._was_refused, absent)) else ""

    def absent(self, line: str) -> list[int]:
        """Return the brokers that a line misses: those that an ISR lacks, or one that is down
        because it gave up its registration."""
        short, down = _SHORT.match(line), self.down(line)
        if short is None:
            return [] if down is None else [down]
        isr, replicas = (each.split(", ") for each in short.groups())
        return [int(each) for each in replicas if each not in isr]

    def down(self, line: str) -> int | None:
        """Return the broker of a line that calls one down, if it gave up its registration."""
        found = _DOWN.match(line)
        return int(found[1]) if found is not None and int(found[1]) in self._ended else None

    def had_to_register_by(self, broker: int) -> int:
        """Return until when controllers had to register a broker that gave up."""
        return self._ended[broker][1]

    def _was_refused(self, broker: int) -> bool:
        ended, due = self._ended.get(broker, (0, 0))
        return ended < due

    def _on_started(self, _seq: int, t: int, node: str, _fact: facts.HostStarted) -> None:
        if node.startswith("broker-"):
            self._waiting[broker_of(node)] = t
            self._ended.pop(broker_of(node), None)

    def _on_registration(
        self, _seq: int, _t: int, _node: str, fact: facts.BrokerRegistration
    ) -> None:
        known, self._offset = self._offset, max(self._offset, fact.offset)
        if fact.change == "registered" and fact.offset > known:
            self._waiting.pop(fact.broker, None)

    def _on_stopped(self, _seq: int, t: int, node: str, fact: facts.HostStopped) -> None:
        since = self._waiting.pop(broker_of(node), None) if node.startswith("broker-") else None
        session_us = self._nodes.limit_us(node, _SESSION)
        if since is None or session_us is None or fact.reason != "halt":
            return
        if self._nodes.elapsed_us(node, since, t) >= self._timeout_us - ROUNDING_US:
            begin = t if self._faults else max(since, self._undisturbed)
            self._ended[broker_of(node)] = (t, begin + 2 * session_us)

    def _on_controller(self, _seq: int, t: int, _node: str, fact: facts.ControllerActive) -> None:
        if fact.active:
            self._undisturbed = t

    def _on_fault(self, _seq: int, _t: int, _node: str, _fact: facts.FaultStarted) -> None:
        self._faults += 1

    def _on_healed(self, _seq: int, t: int, _node: str, _fact: facts.FaultEnded) -> None:
        self._faults -= 1
        self._undisturbed = t
