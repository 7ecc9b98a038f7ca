"""Stalls of a cluster that has lost the disks of half of its metadata quorum's voters (KIP-853).

A voter is known by its id and the directory id of its disk. With an empty disk a controller is
another replica: it observes, refuses the votes that its former self is asked for
(KafkaRaftClient.isValidVoterKey), and its fetches do not count. So a set half of whose voters have
lost their disks elects no leader and commits nothing, its own next change neither. Nobody changes
an ISR, elects a partition's leader or unfences a broker any more, until an operator formats a
controller with another set. A broker that starts and cannot register ends itself
(``registrations.py``).

The last leader may be the controller that lost its disk. The voters that are left name it for ever,
so each of its processes is told that it leads, knows nothing of it, and ends
(KafkaRaftClient.hasConsistentLeader, maybeTransition).

Voters of controller.quorum.voters have no directory id and vote on with any disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource
from kafkasim.scenarios.judging.transactions.liveness.controllers.registrations import (
    Registrations,
)

LOST = "lost-voters"

_DECIDED = re.compile(
    r"\S+: ISR \[.*\] of \[.*\]$|\S+ has no leader$|\S+: broker \d+ does not lead epoch \d+ yet$"
    r"|broker-\d+ is not unfenced since it started$"
)
"""What is missing until a controller decides it, or tells of it"""

_DOWN = re.compile(r"(\S+) is down$")

Voter = tuple[int, str]  # (id, directory id)


class LostVoters:
    """Follows the voter sets and the disks of controllers.

    ``hosts`` is the name of each controller's host, by node id.
    """

    def __init__(
        self, trace: FactSource, hosts: Mapping[int, str], registrations: Registrations
    ) -> None:
        self._registrations = registrations
        self._ids = {host: node_id for node_id, host in hosts.items()}
        self._sets: dict[int, tuple[Voter, ...]] = {}  # by the offset of its record
        self._committed = -1  # the highest offset that a replica has applied
        self._lost: dict[Voter, None] = {}
        self._since = -1  # when the majority was lost; −1: it is there
        self._elected = (-1, -1)  # the last epoch that a controller has told, and its leader
        self._halted: dict[int, None] = {}  # controllers that ended themselves
        trace.subscribe(facts.VotersChanged, self._on_voters)
        trace.subscribe(facts.MetadataCommitted, self._on_committed)
        trace.subscribe(facts.DiskReplaced, self._on_disk)
        trace.subscribe(facts.RaftRole, self._on_role)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.HostStopped, self._on_stopped)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        if self._since == -1:
            return ""
        down = self._registrations.down(line)
        if down is None:
            return LOST if _DECIDED.match(line) or self._is_told_to_lead(line) else ""
        return LOST if self._since < self._registrations.had_to_register_by(down) else ""

    def _is_told_to_lead(self, line: str) -> bool:
        """Return whether a line calls a controller down that led last, lost its disk, and ends
        whenever it starts."""
        found = _DOWN.match(line)
        node_id = self._ids.get(found[1], -1) if found is not None else -1
        lost = any(voter[0] == node_id for voter in self._lost)
        return lost and node_id in self._halted and node_id == self._elected[1]

    def _count(self, t_us: int) -> None:
        """Note whether the voters may still have a majority.

        A leader's log has the last committed set, and perhaps one that is not committed: none of
        them may have a majority.
        """
        if not self._lost:
            return
        last = max([offset for offset in self._sets if offset <= self._committed], default=-1)
        possible = [voters for offset, voters in self._sets.items() if offset >= last]
        if not possible or any(map(self._has_majority, possible)):
            self._since = -1
        elif self._since == -1:
            self._since = t_us

    def _has_majority(self, voters: tuple[Voter, ...]) -> bool:
        return 2 * sum(voter not in self._lost for voter in voters) > len(voters)

    def _on_voters(self, _seq: int, t: int, _node: str, fact: facts.VotersChanged) -> None:
        self._sets[fact.offset] = tuple(zip(fact.voters, fact.directory_ids))
        self._count(t)

    def _on_committed(self, _seq: int, t: int, _n: str, fact: facts.MetadataCommitted) -> None:
        if fact.offset > self._committed:
            self._committed = fact.offset
            self._count(t)

    def _on_disk(self, _seq: int, t: int, node: str, _fact: facts.DiskReplaced) -> None:
        """All directory ids that the controller had until now are gone."""
        known = [voter for voters in self._sets.values() for voter in voters]
        lost = [voter for voter in known if voter[0] == self._ids.get(node) and voter[1]]
        self._lost.update(dict.fromkeys(lost))
        self._count(t)

    def _on_role(self, _seq: int, _t: int, _node: str, fact: facts.RaftRole) -> None:
        self._elected = max(self._elected, (fact.epoch, fact.leader))

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._halted.pop(self._ids.get(node, -1), None)

    def _on_stopped(self, _seq: int, _t: int, node: str, fact: facts.HostStopped) -> None:
        if fact.reason == "halt" and node in self._ids:
            self._halted[self._ids[node]] = None
