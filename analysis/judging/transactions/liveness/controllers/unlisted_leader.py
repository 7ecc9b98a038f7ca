"""Stalls of brokers that cannot find a leader of the metadata quorum which is no voter any more.

A leader that removes itself resigns once the new voters have committed their record
(RemoveVoterHandler.highWatermarkUpdated). If that takes longer than the request's timeout, the
request has failed by then, nobody thinks of it any more, and the leader leads on. A broker looks
for the active controller among the voters of its log (NodeToControllerChannelManager,
RaftControllerNodeProvider.idToNode: KafkaRaftClient.voterNode). One that had a connection keeps it.
One that has started since, or has lost its connection, finds no endpoint: it does not register, or
its heartbeats do not arrive and it is fenced. So it stays until the quorum elects another leader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.transactions.liveness.controllers.registrations import (
    Registrations,
)
from kafkasim.model import facts

UNLISTED_LEADER = "unlisted-leader"

_FENCED = re.compile(r"broker-(\d+) is not unfenced since it started$")


class UnlistedLeader:
    """Follows who leads the metadata quorum, and the voters of its log.

    ``hosts`` is the name of each controller's host, by node id.
    """

    def __init__(
        self, trace: FactSource, hosts: Mapping[int, str], registrations: Registrations
    ) -> None:
        self._hosts = hosts
        self._registrations = registrations
        self._epoch, self._leader = -1, -1
        self._voters: dict[str, tuple[int, ...]] = {}  # of a controller's log, by its host
        self._since = -1  # when a leader began to lead without a vote; −1: none does
        self._fenced: dict[int, int] = {}  # broker -> since when
        self._offset = -1  # of the last registration: a new controller records earlier ones again
        trace.subscribe(facts.RaftRole, self._on_role)
        trace.subscribe(facts.VotersChanged, self._on_voters)
        trace.subscribe(facts.BrokerRegistration, self._on_registration)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        if self._since == -1:
            return ""
        fenced = _FENCED.match(line)
        absent = self._registrations.absent(line) if fenced is None else [int(fenced[1])]
        return UNLISTED_LEADER if absent and all(map(self._finds_none, absent)) else ""

    def _finds_none(self, broker: int) -> bool:
        """Return whether a broker is fenced, or gave up, since the leader has no vote."""
        if self._registrations.down(f"broker-{broker} is down") is not None:
            return self._since < self._registrations.had_to_register_by(broker)
        return self._fenced.get(broker, -1) >= self._since

    def _count(self, t_us: int) -> None:
        voters = self._voters.get(self._hosts.get(self._leader, ""))
        if voters is None or self._leader in voters:
            self._since = -1
        elif self._since == -1:
            self._since = t_us

    def _on_role(self, _seq: int, t: int, node: str, fact: facts.RaftRole) -> None:
        """Take over who leads the highest epoch; whoever resigns leads nobody."""
        if fact.epoch > self._epoch:
            self._epoch, self._leader = fact.epoch, -1
            self._since = -1
        if fact.epoch < self._epoch:
            return
        if fact.role == "leader":
            self._leader = fact.leader
        elif self._hosts.get(self._leader) == node:
            self._leader = -1
        self._count(t)

    def _on_voters(self, _seq: int, t: int, node: str, fact: facts.VotersChanged) -> None:
        self._voters[node] = fact.voters
        self._count(t)

    def _on_registration(
        self, _seq: int, t: int, _node: str, fact: facts.BrokerRegistration
    ) -> None:
        if fact.offset <= self._offset:
            return
        self._offset = fact.offset
        if not fact.fenced:
            self._fenced.pop(fact.broker, None)
        elif fact.change == "fenced":
            self._fenced[fact.broker] = t
