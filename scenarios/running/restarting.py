"""The restart policy of a client's process: who starts it again when its application ends it.

A workload's ``restart`` is Kubernetes' restartPolicy. The back-off is the kubelet's
(CrashLoopBackOff, client-go/util/flowcontrol/backoff.go): the first restart has none, the next ones
wait 10, 20, 40 s and so on up to 5 minutes; once a process has run for more than 10 minutes, the
back-off begins anew. A process that a fault or an operator has ended is started again by that fault
or operator.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.model.facts import RestartBackOff
from kafkasim.scenarios.language.tables import Policy
from kafkasim.scenarios.language.time_limits import LONGEST_BACK_OFF_US
from kafkasim.scenarios.running.workloads import Control
from kafkasim.sim.host.lifecycle import Host
from kafkasim.sim.world import World

SEEN_US = 1_000_000
"""The kubelet sees the end of a process by then (the relist period of its PLEG)."""

FIRST_US = 10_000_000
FORGOTTEN_US = 2 * LONGEST_BACK_OFF_US
"""A process that has run for longer than this begins its back-off anew."""

ENDS = {"application-failed": ("on-failure", "always"), "application-returned": ("always",)}
"""The policies that start a process again, by the reason for which its application ended it."""


@dataclass
class BackOff:
    """How long one host's next restart waits."""

    next_us: int = 0
    restarted_us: int = 0

    def delay(self, now: int) -> int:
        """Return how long to wait for the restart of a process that ended ``now``, in µs."""
        if self.next_us == 0 or now > self.restarted_us + FORGOTTEN_US:
            delay, self.next_us = SEEN_US, FIRST_US
        else:
            delay, self.next_us = self.next_us, min(2 * self.next_us, LONGEST_BACK_OFF_US)
        self.restarted_us = now + delay
        return delay


class Restarts:
    """Starts the processes of client hosts again that their own applications have ended."""

    def __init__(self, world: World, control: Control) -> None:
        self._world = world
        self._control = control
        self._back_offs: dict[str, BackOff] = {}

    def keep(self, host: Host, policy: Policy) -> None:
        """Apply a policy to a host from now on."""
        if policy == "never":
            return
        self._back_offs[host.name] = BackOff()

        def on_stop(host: Host, reason: str) -> None:
            if policy in ENDS.get(reason, ()):
                self._schedule(host)

        host.on_stop.append(on_stop)
        host.on_start.append(lambda host: self._control.restarting.pop(host.name, None))

    def _schedule(self, host: Host) -> None:
        now, control = self._world.now, self._control
        delay_us = self._back_offs[host.name].delay(now)
        control.ended.pop(host.name, None)
        control.returned.pop(host.name, None)
        control.restarting[host.name] = None
        host.trace.record(now, host.name, RestartBackOff(delay_us))
        self._world.at(now + delay_us, self._start, host, host.incarnation)

    def _start(self, host: Host, incarnation: int) -> None:
        """Start the next process, unless a fault or an operator has done so or will do so."""
        if host.incarnation == incarnation and host.powered:
            host.start()
