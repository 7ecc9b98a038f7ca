"""Stalls of a cluster whose metadata quorum elects no leader any more (KIP-853).

It may have lost the disks of half of its voters, or a leader that ended while it removed itself.

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

A disk may also be replaced while its controller is about to be added. A leader adds an observer
that has fetched within the last hour (LeaderState.isReplicaCaughtUp), and leaves the address to
answer ApiVersions, which the controller with the new disk does (AddVoterHandler).

A leader that removes itself is no voter of its own last set. If it ends, or hears of a later
epoch, before a majority of voters has that set, it is an observer from then on and stands for no
election (QuorumState.isVoter), and votes for nobody whose log lacks what its own has. Of two voters
the other one needs that vote, by the set that it has, and both wait for ever; so do two of four if
the only voter that had the new set loses its disk. Raft lets such a server stand until the change
is committed; Kafka does not.

A voter that voted for itself in the epoch of the leader that has removed it does not start again
(CandidateState's constructor); neither does a broker in one process with it.

A group waits as well if its partition of ``__consumer_offsets`` has no leader, or an ISR that is
below min.insync.replicas: the coordinator cannot write (Partition.appendRecordsToLeader), and
answers a rebalance with COORDINATOR_NOT_AVAILABLE. What a consumer holds it reads on
(``liveness/holders.py``).

Voters of controller.quorum.voters have no directory id and vote on with any disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkasim.analysis.judging.invariants.traced import offsets_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.transactions.liveness.controllers.last_changes import LastChanges
from kafkasim.analysis.judging.transactions.liveness.controllers.registrations import (
    Registrations,
)
from kafkasim.analysis.judging.transactions.liveness.holders import Holders
from kafkasim.model import facts

LOST = "lost-voters"
UNSTARTABLE = "removed-candidate"

_DECIDED = re.compile(
    r"\S+: ISR \[.*\] of \[.*\]$|\S+ has no leader$|\S+: broker \d+ does not lead epoch \d+ yet$"
    r"|broker-\d+ is not unfenced since it started$"
)
"""What is missing until a controller decides it, or tells of it"""

_DOWN = re.compile(r"(\S+) is down$")
_GROUP = re.compile(r"group (\S+) is at \d+ of \d+ in ")

Voter = tuple[int, str]  # (id, directory id)


class LostVoters:
    """Follows the voter sets and the disks of controllers.

    ``hosts`` is the name of each controller's host, by node id.
    """

    def __init__(
        self,
        trace: FactSource,
        hosts: Mapping[int, str],
        registrations: Registrations,
        holders: Holders,
    ) -> None:
        self._holders = holders
        self._homes = OffsetsPartitions(trace)
        self._registrations = registrations
        self._hosts = hosts
        self._ids = {host: node_id for node_id, host in hosts.items()}
        self._sets: dict[int, tuple[Voter, ...]] = {}  # by the offset of its record
        self._committed = -1  # the highest offset that a replica has applied
        self._held: dict[str, int] = {}  # host -> the offset of the set that it uses
        self._lost: dict[Voter, None] = {}
        self._since = -1  # when the majority was lost; −1: it is there
        self._elected = (-1, -1)  # the last epoch that a controller has told, and its leader
        self._halted: dict[int, None] = {}  # controllers that ended themselves
        self._leading: dict[str, None] = {}  # hosts that may lead an epoch
        self._stood: dict[str, None] = {}  # hosts that stood, and did not win, in their last epoch
        self._epochs: dict[str, int] = {}  # host -> that epoch
        self._elections = 0
        self._told: dict[tuple[int, tuple[Voter, ...]], int] = {}  # a set -> elections before it
        trace.subscribe(facts.VotersChanged, self._on_voters)
        trace.subscribe(facts.MetadataCommitted, self._on_committed)
        trace.subscribe(facts.DiskReplaced, self._on_disk)
        trace.subscribe(facts.RaftRole, self._on_role)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.HostStopped, self._on_stopped)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        down = _DOWN.match(line)
        away = (
            [down[1]] if down else [f"broker-{each}" for each in self._registrations.absent(line)]
        )
        if away and all(map(self._cannot_stand, away)):
            return UNSTARTABLE
        return "" if self._since == -1 else self._why_without_quorum(line)

    def _cannot_stand(self, host: str) -> bool:
        """Return whether a controller ended itself that is a candidate by its vote, and no voter
        by the last set of its log."""
        node_id, offset = self._ids.get(host, -1), self._held.get(host, -1)
        voters = [voter for voter, _ in self._sets.get(offset, ((node_id, ""),))]
        return host in self._stood and node_id in self._halted and node_id not in voters

    def _why_without_quorum(self, line: str) -> str:
        """Return why a line waits for a quorum that has lost its voters, or ""."""
        down = self._registrations.down(line)
        if down is None:
            group = _GROUP.match(line)
            stuck = self._waits(group[1], line) if group else _DECIDED.match(line)
            return LOST if stuck or self._is_told_to_lead(line) else ""
        return LOST if self._since < self._registrations.had_to_register_by(down) else ""

    def _waits(self, group: str, line: str) -> bool:
        """Return whether a group waits for a coordinator that cannot write."""
        return self._homes.stuck(group) and not self._holders.reads_on(
            line, lambda broker: bool(self.excuse(f"broker-{broker} is down"))
        )

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
        last = max([offset for offset in self._sets if offset <= self._committed], default=-1)
        possible = [offset for offset in self._sets if offset >= last]
        is_known = last != -1 and not self._leading  # nobody spreads another set
        may_elect = self._may_elect if is_known or self._lost else lambda *_: True
        if not possible or any(may_elect(offset, is_known) for offset in possible):
            self._since = -1
        elif self._since == -1:
            self._since = t_us

    def _may_elect(self, offset: int, is_known: bool) -> bool:
        """Return whether a voter of a set may win an election that counts the set's votes.

        A replica counts those of the last set in its log. Once all voters that are left have a
        later set, nobody counts the votes of this one, and nobody is there to truncate that one.

        ``is_known``: nobody leads. Then a set that is not committed counts for those who have it,
        and whoever has a later one votes only for a log with it.
        """
        voters = self._sets[offset]
        left = [voter for voter in voters if voter not in self._lost]
        if is_known:
            left = [voter for voter in left if not self._is_ahead(voter, offset)]
        may_come = not is_known or offset <= self._committed
        used = any(held == offset or (may_come and held < offset) for held in map(self._last, left))
        return used and 2 * len(left) > len(voters)

    def _last(self, voter: Voter) -> int:
        """Return the offset of the set that a voter uses; −1 if it has told none."""
        return self._held.get(self._hosts.get(voter[0], ""), -1)

    def _is_ahead(self, voter: Voter, offset: int) -> bool:
        """Return whether a voter has a set behind this one, and nobody was elected since."""
        last = self._last(voter)
        return last > offset and self._told[last, self._sets[last]] == self._elections

    def _on_voters(self, _seq: int, t: int, node: str, fact: facts.VotersChanged) -> None:
        voters = tuple(zip(fact.voters, fact.directory_ids))
        self._sets[fact.offset] = voters
        self._told.setdefault((fact.offset, voters), self._elections)
        self._held[node] = fact.offset
        self._count(t)

    def _on_committed(self, _seq: int, t: int, _n: str, fact: facts.MetadataCommitted) -> None:
        if fact.offset > self._committed:
            self._committed = fact.offset
            self._count(t)

    def _on_disk(self, _seq: int, t: int, node: str, fact: facts.DiskReplaced) -> None:
        """The replica that the controller was until now is gone, a voter or not yet one."""
        self._held.pop(node, None)
        self._stood.pop(node, None)
        self._lost.update({(self._ids.get(node, -1), gone): None for gone in fact.directory_ids})
        self._count(t)

    def _on_role(self, _seq: int, t: int, node: str, fact: facts.RaftRole) -> None:
        self._elected = max(self._elected, (fact.epoch, fact.leader))
        if fact.role == "candidate":
            self._stood[node] = None
        elif fact.role == "leader" or fact.epoch > self._epochs.get(node, -1):
            self._stood.pop(node, None)
        self._epochs[node] = fact.epoch
        if fact.role == "leader":
            self._leading[node] = None
            self._elections += 1
        else:
            self._leading.pop(node, None)
        self._count(t)

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._halted.pop(self._ids.get(node, -1), None)

    def _on_stopped(self, _seq: int, t: int, node: str, fact: facts.HostStopped) -> None:
        self._leading.pop(node, None)
        self._count(t)
        if fact.reason == "halt" and node in self._ids:
            self._halted[self._ids[node]] = None


class OffsetsPartitions:
    """Follows whether the coordinators of groups can write."""

    def __init__(self, trace: FactSource) -> None:
        self._changes = LastChanges(trace)

    def stuck(self, group: str) -> bool:
        """Return whether a group's partition has no leader, or one that may not append."""
        home = offsets_partition(group, self._changes.topics)
        change = self._changes.of(home)
        if change is None:
            return False
        absent = [broker for broker in change.replicas if broker not in change.isr]
        return change.leader == -1 or len(change.isr) < self._changes.minimum(home, absent)
