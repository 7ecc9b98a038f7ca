"""EXCL in ZooKeeper: what old consumers of one group may hold, and when (KAFKA.md, 3.5).

A partition has one owner: the consumer whose claim ZooKeeper has confirmed, until the consumer
sends the deletion, its session ends, or its process does. Three things must not happen:

- a consumer claims a partition that another one holds;
- a consumer gets a record of a partition that it has released and not claimed again;
- a consumer releases what it held when its session ended: the znode is the next owner's by then. A
  rebalance that was under way at that moment may do so in Kafka, too, and is not judged.

A consumer whose session has ended does not know it at once and goes on for a while. That breaks no
promise: no fencing is promised. A claim is told when its answer arrives and a release when it is
sent. A claim that is told after its session has ended is void: the znode went with the session, and
the answer had waited for a consumer that was paused (ZooKeeper: DataTree.killSession).

A deletion waits for the connection, also for that of the next session (ZkClient.retryUntilConnected
in ZkUtils.deletePath), and names no owner. So one that was sent before the session ended may remove
the znode of the next owner, who does not hear of it: that one holds the partition no more.
"""

from __future__ import annotations

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.model import facts

Member = tuple[str, str]
"""A group and a consumer's id in it."""


class Owners:
    """Follows the owners of partitions in groups of old consumers."""

    def __init__(self, cluster: TracedCluster) -> None:
        self.cluster = cluster
        self._owner: dict[tuple[str, str], str] = {}  # (group, topic-partition) -> consumer
        self._node: dict[Member, str] = {}
        self._holds: dict[Member, dict[str, None]] = {}  # since its last rebalance ended
        self._lost: dict[Member, dict[str, None]] = {}  # held when its session ended
        self._released: dict[Member, dict[str, None]] = {}
        self._deleting: dict[Member, str] = {}  # whose last act was to send this deletion
        self._session: dict[str, int] = {}  # host -> its session, as it knows it
        self._ending: dict[str, None] = {}  # hosts whose session the ensemble is ending
        self._over: dict[str, int] = {}  # host -> its last session that the ensemble has ended
        cluster.trace.subscribe(facts.PartitionOwner, self._on_owner)
        cluster.trace.subscribe(facts.ZooKeeperConnection, self._on_connection)

    def missing(self, group: str, partitions: list[str]) -> list[str]:
        """Return those of the partitions, named topic-number, that nobody owns."""
        return [
            f"{name} has no owner in group {group}"
            for name in partitions
            if (group, name) not in self._owner
        ]

    def _on_owner(self, seq: int, t: int, node: str, fact: facts.PartitionOwner) -> None:
        if not self._node:
            self._follow()
        member, name = (fact.group, fact.member_id), f"{fact.topic}-{fact.partition}"
        self._node[member] = node
        place = (fact.group, name)
        self._deleting.pop(member, None)
        if fact.event == "claimed":
            if node not in self._over or self._over[node] != self._session.get(node):
                known = self._owner.get(place, fact.member_id)
                if known != fact.member_id and not self._is_ending(fact.group, known):
                    self._violated(seq, t, fact, f"{known} and {fact.member_id} both own {name}")
                self._owner[place] = fact.member_id
            for names in (self._lost, self._released):
                names.get(member, {}).pop(name, None)
        elif fact.event == "released":
            if name in self._lost.get(member, {}):
                self._violated(
                    seq, t, fact,
                    f"{fact.member_id} releases {name}, which it held in a session that has ended",
                )  # fmt: skip
            self._owner.pop(place, None)
            self._deleting[member] = name
            self._released.setdefault(member, {})[name] = None

    def _is_ending(self, group: str, consumer: str) -> bool:
        return self._node.get((group, consumer)) in self._ending

    def _follow(self) -> None:
        trace = self.cluster.trace
        trace.subscribe(facts.RebalanceAttempt, self._on_attempt)
        trace.subscribe(facts.ConsumerRevoked, self._on_revoked)
        trace.subscribe(facts.Polled, self._on_polled)
        trace.subscribe(facts.ZooKeeperSession, self._on_session)
        trace.subscribe(facts.HostStopped, self._on_stopped)

    def _on_attempt(self, _seq: int, _t: int, _n: str, fact: facts.RebalanceAttempt) -> None:
        self._deleting.pop((fact.group, fact.member_id), None)
        if fact.outcome == "done":
            own = [
                name
                for (group, name), owner in self._owner.items()
                if (group, owner) == (fact.group, fact.member_id)
            ]
            self._holds[fact.group, fact.member_id] = dict.fromkeys(own)

    def _on_revoked(self, _seq: int, _t: int, _node: str, fact: facts.ConsumerRevoked) -> None:
        """From here on a rebalance is under way, which releases what was held."""
        self._holds.pop((fact.group, fact.member_id), None)

    def _on_polled(self, seq: int, t: int, _node: str, fact: facts.Polled) -> None:
        released = self._released.get((fact.group, fact.member_id))
        if not released or not fact.offsets:
            return
        created = self.cluster.topics.get(fact.topic_id)
        name = f"{created.topic if created else fact.topic_id}-{fact.partition}"
        if name in released:
            self._violated(
                seq, t, fact,
                f"{fact.member_id} gets offset {fact.offsets[0]} of {name}, which it has released",
            )  # fmt: skip

    # Sessions and processes.

    def _on_connection(self, _s: int, _t: int, node: str, fact: facts.ZooKeeperConnection) -> None:
        if fact.state != "CONNECTED":
            return
        if self._session.get(node, fact.session_id) != fact.session_id:
            self._ending.pop(node, None)
            for member in self._members_of(node):
                held = self._holds.pop(member, {})
                self._lost.setdefault(member, {}).update(held)
                self._drop(member)
                if member in self._deleting:
                    self._owner.pop((member[0], self._deleting[member]), None)
        self._session[node] = fact.session_id

    def _on_session(self, _s: int, _t: int, _node: str, fact: facts.ZooKeeperSession) -> None:
        if self._session.get(fact.client) != fact.session_id:
            return
        if fact.event == "expiring":
            self._ending[fact.client] = None
        elif fact.event in ("expired", "closed"):
            self._over[fact.client] = fact.session_id
            for member in self._members_of(fact.client):
                self._drop(member)

    def _on_stopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        for member in self._members_of(node):
            self._drop(member)
            for known in (self._holds, self._lost, self._released, self._deleting, self._node):
                known.pop(member, None)
        self._session.pop(node, None)
        self._ending.pop(node, None)

    def _members_of(self, node: str) -> list[Member]:
        return [member for member, host in self._node.items() if host == node]

    def _drop(self, member: Member) -> None:
        """Take note that the consumer owns nothing any more."""
        group, consumer = member
        for place in [
            place for place, owner in self._owner.items() if place[0] == group and owner == consumer
        ]:
            del self._owner[place]

    def _violated(
        self, seq: int, t: int, fact: facts.PartitionOwner | facts.Polled, text: str
    ) -> None:
        if isinstance(fact, facts.Polled):
            topic_id = fact.topic_id
        else:
            created = self.cluster.topics.items()
            topic_id = next((key for key, made in created if made.topic == fact.topic), "")
        key = (topic_id, fact.partition)
        self.cluster.violated("EXCL", seq, t, key, f"group {fact.group}: {text}")
