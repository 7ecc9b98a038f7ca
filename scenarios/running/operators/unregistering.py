"""How an operator unregisters brokers (kafka-cluster.sh unregister), and starts them anew.

A broker registers once (BrokerLifecycleManager). One that is unregistered while it runs gets
BROKER_ID_NOT_REGISTERED for its heartbeats until somebody restarts it.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.progress import Progress
from kafkasim.model import facts
from kafkasim.model.errors import Errors
from kafkasim.scenarios.language.tables import OperationTable
from kafkasim.sim.apps.client_port import ClientPort
from kafkasim.sim.trace.recording import Facts
from kafkasim.sim.world import World


async def unregister_broker(
    port: ClientPort, operation: OperationTable
) -> list[tuple[str, Errors, str]]:
    """Unregister the broker of ``operation.node``; return (node, error, message)."""
    assert operation.node is not None, operation
    broker_id = int(operation.node.rpartition("-")[2])
    answer = await port.call("admin.unregister_broker", broker_id)
    return [(operation.node, answer.error, answer.message)]


class StartedAnew:
    """Restarts brokers that were unregistered while they run, once ``healed()`` returns True.

    A request that has waited for a controller may unregister a broker after that.
    """

    def __init__(
        self, world: World, trace: Facts, progress: Progress, healed: Callable[[], bool]
    ) -> None:
        self._world = world
        self._progress = progress
        self._healed = healed
        trace.subscribe(facts.BrokerRegistration, self._on_registration)

    def heal(self) -> None:
        """Restart all brokers that wait for it."""
        for broker in list(self._progress.unregistered):
            self._restart(broker)

    def _on_registration(
        self, _seq: int, _t: int, _node: str, fact: facts.BrokerRegistration
    ) -> None:
        known = self._progress.unregistered
        if fact.change == "unregistered" and fact.broker in known and self._healed():
            self._world.at(self._world.now, self._restart, fact.broker)

    def _restart(self, broker: int) -> None:
        host = self._world.hosts[f"broker-{broker}"]
        if host.alive:
            host.restart()
