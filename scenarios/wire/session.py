"""A cluster with clients from outside: what a live session and its replay have in common.

All that decides a session comes in here: connections, bytes, faults, each at a simulated time. The
cluster is a function of the scenario, the seed, the code and these inputs.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kafkasim.analysis.judging.history.budget import Budget
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.promise import follow
from kafkasim.analysis.judging.settings import Settings
from kafkasim.model.broker.common.kafka_broker import KafkaBroker
from kafkasim.scenarios.language.nodes import ANY, node_names
from kafkasim.scenarios.language.tables import FaultTable, Scenario
from kafkasim.scenarios.language.translate import translate
from kafkasim.scenarios.running.cluster_run import ClusterRun
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.scenarios.wire.answers import Answers
from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.gateway import Client, Link, OutsideHost
from kafkasim.scenarios.wire.schemas import Schemas, served_schemas
from kafkasim.sim.faults.kinds import KINDS, Fault, FaultError, validate

OUTSIDE_PREFIX = "outside/"
HOSTS_MAX = 10_000

SERVERS = "servers"
"""As a peer of a link, all other brokers and controllers: clients still reach the node."""


class UnjudgedCluster(ClusterRun):
    """A cluster without judges: their memory grows with its facts."""

    def follow(self, settings: Settings) -> Budget:
        """Follow what boot and guarded faults need."""
        self.progress = Progress(self.trace, settings.zookeeper)
        budget = Budget()
        follow(self.trace, budget)
        return budget


class LiveRun(ScenarioRun):
    """A run without judges."""

    cluster_run = UnjudgedCluster

    def boot(self) -> None:
        """Start the servers and create the topics.

        Raises:
            SessionError: the cluster is not ready within its limit.
        """
        if not self._boot():
            raise SessionError(f"the cluster is not ready: {'; '.join(self.missing)}")
        self._phase("safety", "")


class _Broker:
    """The broker that a connection goes to (Served)."""

    def __init__(self, run: ScenarioRun, node: str, ports: Mapping[str, tuple[str, int]]) -> None:
        self._run, self._node, self._ports = run, node, ports

    @property
    def kafka(self) -> KafkaBroker | None:
        process = self._run.cluster.broker_process(self._node)
        return None if process is None else process.kafka

    def listener(self, node: str) -> tuple[str, int]:
        return self._ports.get(node, ("127.0.0.1", 0))


class Session:
    """The clients from outside of one run, and the faults that people inject.

    Args:
        run: the cluster.
        ports: host and port of each broker's listener, by node.
    """

    def __init__(
        self,
        run: ScenarioRun,
        ports: Mapping[str, tuple[str, int]],
        schemas: Schemas | None = None,
    ) -> None:
        self.run = run
        self.ports = ports
        self.links: dict[int, Link] = {}
        self.hosts: dict[str, OutsideHost] = {}
        self._schemas = schemas or served_schemas()
        self.answers = Answers(self._schemas, tuple(ports))
        self._draws = random.Random(run.seed)  # of any-KIND selectors and ranges of durations

    def open(self, number: int, node: str, client_id: str, client: Client) -> Link:
        """Open a client's connection to the broker of a node.

        Raises:
            SessionError: there is no such broker, or there are too many client ids.
        """
        if node not in self.ports:
            raise SessionError(f"no broker {node!r}; there are {', '.join(self.ports)}")
        name = OUTSIDE_PREFIX + (client_id or "unnamed")
        host = self.hosts.get(name)
        if host is None:
            if len(self.hosts) >= HOSTS_MAX:
                raise SessionError(f"more than {HOSTS_MAX} client ids")
            host = self.hosts[name] = OutsideHost(self.run.world, name)
        broker = _Broker(self.run, node, self.ports)
        link = self.links[number] = Link(self._schemas, host, node, broker, client, self.answers)
        return link

    def data(self, number: int, data: bytes) -> None:
        """Take bytes of a connection; one that has ended takes none."""
        link = self.links.get(number)
        if link is not None:
            link.feed(data)

    def close(self, number: int) -> None:
        """Close a connection from the client's side."""
        link = self.links.pop(number, None)
        if link is not None:
            link.close()

    def inject(self, data: Mapping[str, Any]) -> str:
        """Arm a fault, a table of ``[[faults]]``; its time counts from now. Return what it is.

        Raises:
            SessionError: the table is wrong.
        """
        scenario = self.run.scenario
        try:
            table = FaultTable.model_validate(data)
            if table.kind == "nemesis":
                raise SessionError("kind: a nemesis is drawn before a run; give a fault of its own")
            nodes = [*node_names(scenario), *self.hosts]
            if SERVERS in table.peers:
                table = table.model_copy(update={"peers": self._with_servers(table)})
            fault = translate(table, nodes, self._draws, combined=scenario.cluster.combined)
            places = [*nodes, *ANY] if KINDS[table.kind].link else self.run.world.hosts
            validate(fault, dict.fromkeys(places))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(each) for each in first["loc"])
            raise SessionError(f"{place}: {first['msg']}") from None
        except FaultError as error:
            raise SessionError(str(error)) from None
        self.run.faults.injector.arm([fault], self.run.world.now)
        return described(fault)

    def answer(self, data: Mapping[str, Any]) -> str:
        """Answer the next requests of an API with an error, late, or not at all; return what it is.

        Raises:
            SessionError: the table is wrong (:mod:`.answers`).
        """
        return str(self.answers.add(data))

    def asked(self) -> dict[str, dict[str, int]]:
        """Return how many requests of each API each client has sent so far."""
        apis = self._schemas.apis
        return {
            name: {apis[key]["name"]: count for key, count in sorted(host.asked.items())}
            for name, host in self.hosts.items()
        }

    def _with_servers(self, table: FaultTable) -> list[str]:
        """Return the far side of a link with all other servers in place of their common name."""
        named = [
            node for node in self.run.cluster.servers if node not in (table.node, *table.nodes)
        ]
        return list(dict.fromkeys([*named, *[each for each in table.peers if each != SERVERS]]))

    def heal(self) -> None:
        """End all faults and answers, and start what they took down; later faults may start."""
        self.answers.clear()
        self.run.faults.heal()
        self.run.faults.injector.armed = True


def described(fault: Fault) -> str:
    """Return a fault as a line says it: its kind, where it is, and the far side of a link."""
    far = f" | {'+'.join(fault.others)}" if fault.others else ""
    return f"{fault.kind} {'+'.join(fault.targets)}{far}"


def scenario_served(scenario: Scenario, workloads: bool, faults: bool) -> Scenario:
    """Return a scenario without what a session does not have of it."""
    update: dict[str, Any] = {}
    if not workloads:
        update["workload"] = []
    if not faults:
        update |= {"faults": [], "operations": []}
    return scenario.model_copy(update=update)
