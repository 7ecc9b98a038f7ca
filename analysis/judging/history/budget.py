"""The no-loss budget: which partitions may legally lose data through the faults of this run.

A fault that loses data on broker b (power loss, failed flushes, a replaced disk) is inside the
budget only if every partition with b in the controller's ISR has a *witness*: another member of the
ISR that stays up and intact until b has left the ISR (KAFKA.md, 0.1). The budget follows the trace.
When the last witness of a loss stops, is damaged or leaves the ISR before b does, the partition is
outside the budget for the rest of the run.

Processes are judged, not sessions: a witness that stops and restarts at once has stopped. The
eligible leader replicas (KIP-966) have all committed records and count like members of the ISR. So
does the last known leader: Kafka elects it once ISR and ELR are empty, also if it lost data. A
witness that leaves the ELR earlier, because its restart was unclean, can no longer prevent that.

A broker may lose data while its leader's proposal to add it to the ISR is under way. The controller
grants that until the broker has registered again (KIP-903), and then the broker is in the ISR
without the data, as if it had lost it there. Any other change of the partition refuses the
proposal, which names a partition epoch.

In ZooKeeper mode only the memory of the controller tells that a broker bounced (KIP-380). A broker
that lost data, is back before its session ends, and meets a new controller stays in the ISR. When
it then leads, in its old epoch or by a clean election, the partition is outside the budget,
whatever witnesses there are. In KRaft mode the broker's registration says that it bounced, so a
loss of this kind is a bug.

A KRaft controller that is the only voter commits metadata before it flushes it, so a loss of its
power may undo what the brokers know: it is outside the budget.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

Partition = tuple[str, int]


class Budget:
    """Follows the facts of one run.

    ``outside`` says of each partition outside the budget how it got there.
    """

    def __init__(self) -> None:
        self.outside: dict[Partition, str] = {}
        # With the eligible leader replicas and the last known leader: whoever may come to lead.
        self._isr: dict[Partition, tuple[int, ...]] = {}
        self._epochs: dict[Partition, int] = {}  # the partition epoch of that ISR
        self._up: dict[int, bool] = {}
        # By partition: the brokers that lost data and are still in the ISR, and their witnesses.
        self._losses: dict[Partition, dict[int, list[int]]] = {}
        # By partition: the brokers that lost data and may join the ISR by an earlier proposal.
        self._joining: dict[Partition, dict[int, None]] = {}
        # In ZooKeeper mode: which of these brokers have met a new controller since.
        self._forgotten: dict[Partition, dict[int, None]] = {}
        self._zookeeper = False
        self._voters: dict[str, None] = {}  # the hosts that vote in the quorum or ensemble
        # By broker: the log directory of each replica, and the replicas in failed directories.
        self._placed: dict[int, dict[Partition, str]] = {}
        self._offline: dict[int, dict[Partition, None]] = {}

    def allows(self, nodes: Iterable[str], loses: bool) -> bool:
        """Return whether all partitions stay inside the budget if these processes are hit now.

        A fault that ends or cuts off a process must also leave a witness to every earlier loss.
        One that ``loses`` data must leave a witness to that.
        """
        hosts = list(nodes)
        hit = [broker_of(node) for node in hosts if broker_of(node) >= 0]
        if loses and not self._zookeeper and len(self._voters) == 1:
            if any(host in self._voters for host in hosts):
                return False
        for partition, isr in self._isr.items():
            for witnesses in self._losses.get(partition, {}).values():
                if witnesses and all(witness in hit for witness in witnesses):
                    return False
            if loses and any(broker in isr for broker in hit):
                if not self._intact(partition, tuple(hit)):
                    return False
        return True

    def has_lost(self, partition: Partition, node: str) -> bool:
        """Return whether a broker lost data while it was in the ISR, and has not left it since."""
        return broker_of(node) in self._losses.get(partition, ())

    def on_RaftRole(self, _: int, __: int, node: str, ___: facts.RaftRole) -> None:
        self._voters[node] = None

    def on_DiskReplaced(self, _: int, t_us: int, node: str, __: facts.DiskReplaced) -> None:
        """An operator has given a broker an empty disk."""
        self._data_lost(node, t_us, "replaced disk")

    def on_DiskDamaged(self, _: int, t_us: int, node: str, fact: facts.DiskDamaged) -> None:
        """A fault has made a broker lose writes, or a directory of its disk."""
        if fact.reason == "failed flush":
            self._data_lost(node, t_us, fact.reason)
            return
        broker = broker_of(node)
        for partition, path in list(self._placed.get(broker, {}).items()):
            if (path.rstrip("/") + "/").startswith(fact.directory):
                self._offline.setdefault(broker, {})[partition] = None
                self._no_witness(broker, t_us, f"a {fact.reason} of {node}", partition)

    def _data_lost(self, node: str, t_us: int, reason: str) -> None:
        broker = broker_of(node)
        if broker < 0:
            return
        self._no_witness(broker, t_us, f"{reason} of {node}")
        for partition, isr in self._isr.items():
            if broker in isr:
                self._needs_witness(partition, broker, f"{reason} of {node}", t_us)
            else:
                self._joining.setdefault(partition, {})[broker] = None

    def _needs_witness(self, partition: Partition, broker: int, why: str, t_us: int) -> None:
        """Note that a member of the ISR lacks data, and who of the others has it."""
        witnesses = self._intact(partition, (broker,))
        self._losses.setdefault(partition, {})[broker] = witnesses
        if not witnesses:
            self._leave(partition, f"{why} at {t_us} µs, ISR {list(self._isr[partition])}")

    def _intact(self, partition: Partition, without: tuple[int, ...]) -> list[int]:
        damaged = self._losses.get(partition, {})
        return [
            broker
            for broker in self._isr[partition]
            if self._up.get(broker, False) and broker not in damaged and broker not in without
            and partition not in self._offline.get(broker, ())
        ]  # fmt: skip

    def on_PartitionChanged(self, _: int, t_us: int, __: str, fact: facts.PartitionChanged) -> None:
        partition = (fact.topic_id, fact.partition)
        known = self._epochs.get(partition, -1)
        if fact.partition_epoch < known:
            return  # a newer ISR was told before
        self._epochs[partition] = fact.partition_epoch
        members = self._isr[partition] = fact.isr + fact.elr + fact.last_known_elr
        if fact.partition_epoch > known:
            for broker in self._joining.pop(partition, ()):
                if broker in fact.isr:
                    why = f"broker {broker} joined without the data that it had lost"
                    self._needs_witness(partition, broker, why, t_us)
        losses = self._losses.get(partition)
        if not losses:
            return
        for broker in [broker for broker in losses if broker not in members]:
            del losses[broker]
            self._forgotten.get(partition, {}).pop(broker, None)
        for broker, witnesses in losses.items():
            kept = [witness for witness in witnesses if witness in members]
            losses[broker] = kept
            if witnesses and not kept:
                left = f"the witnesses {witnesses} left the ISR before broker {broker}"
                self._leave(partition, f"{left} at {t_us} µs")

    def on_BrokerRegistration(
        self, _: int, __: int, ___: str, fact: facts.BrokerRegistration
    ) -> None:
        """A KRaft controller refuses proposals with an earlier epoch of the broker (KIP-903)."""
        if fact.change == "registered" and fact.fenced:
            for joining in self._joining.values():
                joining.pop(fact.broker, None)

    def on_ZkControllerWrite(
        self, _: int, __: int, ___: str, ____: facts.ZkControllerWrite
    ) -> None:
        self._zookeeper = True

    def on_ControllerActive(self, _: int, __: int, ___: str, fact: facts.ControllerActive) -> None:
        if fact.active and self._zookeeper:
            for partition, losses in self._losses.items():
                self._forgotten.setdefault(partition, {}).update(dict.fromkeys(losses))

    def on_BecameLeader(self, _: int, t_us: int, node: str, fact: facts.BecameLeader) -> None:
        partition = (fact.topic_id, fact.partition)
        broker = broker_of(node)
        if broker in self._forgotten.get(partition, ()):
            why = f"{node}, which had lost data, leads in leader epoch {fact.leader_epoch}"
            self._leave(partition, f"{why} at {t_us} µs: no controller remembers that it bounced")

    def on_HostStarted(self, _: int, __: int, node: str, ___: facts.HostStarted) -> None:
        self._up[broker_of(node)] = True
        self._placed.pop(broker_of(node), None)

    def on_LogPlaced(self, _: int, __: int, node: str, fact: facts.LogPlaced) -> None:
        broker = broker_of(node)
        partition = (fact.topic_id, fact.partition)
        self._placed.setdefault(broker, {})[partition] = fact.directory
        self._offline.get(broker, {}).pop(partition, None)

    def on_HostStopped(self, _: int, t_us: int, node: str, fact: facts.HostStopped) -> None:
        broker = broker_of(node)
        if broker < 0:
            return
        self._up[broker] = False
        if fact.reason == "power-loss":
            self._data_lost(node, t_us, "power loss")
        else:
            self._no_witness(broker, t_us, f"{fact.reason} of {node}")

    def _no_witness(self, gone: int, t_us: int, why: str, only: Partition | None = None) -> None:
        for partition, losses in self._losses.items():
            if only not in (None, partition):
                continue
            for broker, witnesses in losses.items():
                if gone in witnesses:
                    witnesses.remove(gone)
                    if not witnesses:
                        still = f"while broker {broker}, which had lost data, was in the ISR"
                        self._leave(partition, f"{why} at {t_us} µs {still}")

    def _leave(self, partition: Partition, reason: str) -> None:
        self.outside.setdefault(partition, reason)
