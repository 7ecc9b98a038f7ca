"""EXCL, changed-generation: who owns partitions, and who is in a generation of a group."""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.source import instance_of
from kafkasim.model import facts

LOADED = "loaded"
"""The reason of a state that a coordinator has found in its log."""

Member = tuple[str, str]
"""A group and a consumer's id in it."""


class Exclusive:
    """EXCL: a partition has one owner in a generation; an instance id has one member (KIP-345)."""

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        # By group and generation: partition -> the member that owns it, and the row that says so.
        self._owners: dict[tuple[str, int], dict[str, tuple[str, int]]] = {}
        self._told: dict[str, dict[str, None]] = {}  # group -> members that had an assignment
        self._dynamic: dict[Member, None] = {}  # as JoinGroups tell
        self._instances: dict[str, dict[str, None]] = {}  # group -> the group.instance.ids

    def on_GroupAssigned(self, seq: int, t: int, _node: str, fact: facts.GroupAssigned) -> None:
        """EXCL: a partition has one owner at a time in a generation.

        A static member that joins again gets the assignment of the id that it replaces, within the
        generation (KIP-345); the coordinator takes it from the old id first. A static member of a
        consumer group that is away has the epoch -2, which is no generation (KIP-848).
        """
        self._told.setdefault(fact.group, {})[fact.member_id] = None
        if fact.generation < 0:
            return
        owners = self._owners.setdefault((fact.group, fact.generation), {})
        for name in [name for name, (owner, _) in owners.items() if owner == fact.member_id]:
            if name not in fact.assignment:
                del owners[name]
        for name in fact.assignment:
            known, since = owners.setdefault(name, (fact.member_id, seq))
            if known != fact.member_id:
                key = self._history.group_key(fact.group)
                self._findings.add(
                    "EXCL", seq, t, key,
                    f"group {fact.group}, generation {fact.generation}: {known} and"
                    f" {fact.member_id} both own {name}",
                    self._history.lost_between(key, since, seq),
                )  # fmt: skip

    def on_MemberRequest(self, _s: int, _t: int, _n: str, fact: facts.MemberRequest) -> None:
        """Learn which members are static."""
        if fact.instance_id is not None:
            self._instances.setdefault(fact.group, {})[fact.instance_id] = None
        elif fact.api == "JoinGroup" and fact.member_id:
            self._dynamic[fact.group, fact.member_id] = None

    def _instance_of(self, group: str, member_id: str) -> str:
        """Return the group.instance.id of a classic member, "" for one that is known as dynamic.

        Its id begins with its client.id, which may be the group.instance.id of another one.
        """
        return "" if (group, member_id) in self._dynamic else instance_of(member_id)

    def on_GroupState(self, seq: int, t: int, _node: str, fact: facts.GroupState) -> None:
        """EXCL: a group has one member for each group.instance.id (KIP-345).

        A group that was deleted has none.

        Kafka makes the member's id of the instance id and a random part. A coordinator that loads
        the group may find a replacement that its predecessor stored and did not tell. One that
        replaces a member twice tells nothing of the first time, if both fail to be stored: only
        the second can be undone (ClassicGroup.replaceStaticMember; seed 30000935).
        """
        self._replace(fact)
        if fact.state == "Dead":  # its generations begin anew, if it comes again
            for key in [key for key in self._owners if key[0] == fact.group]:
                del self._owners[key]
        known = self._instances.get(fact.group)
        if known is None:
            return
        members: dict[str, str] = {}
        for member_id in fact.member_ids:
            instance = self._instance_of(fact.group, member_id)
            if instance in known and members.setdefault(instance, member_id) != member_id:
                self._findings.add(
                    "EXCL", seq, t, self._history.group_key(fact.group),
                    f"group {fact.group} has two members of group.instance.id {instance}:"
                    f" {members[instance]} and {member_id}",
                )  # fmt: skip

    def _replace(self, fact: facts.GroupState) -> None:
        """Take from the old ids of static members what new ones have, of which nobody has told.

        An id that was told of before is none of these: a coordinator that comes back with one has
        lost the replacement (KAFKA-10284).
        """
        known, told = self._instances.get(fact.group, {}), self._told.get(fact.group, {})
        new = [member_id for member_id in fact.member_ids if member_id not in told]
        present = {self._instance_of(fact.group, member_id): None for member_id in new}
        owners = self._owners.get((fact.group, fact.generation), {})
        for name, (owner, _) in list(owners.items()):
            instance = self._instance_of(fact.group, owner)
            if owner not in fact.member_ids and instance in known and instance in present:
                del owners[name]


class Generations:
    """changed-generation: a classic generation has the members that its leader was told of.

    When all members have joined, the JoinGroup responses name them to the leader, which assigns
    partitions to these member ids. Who comes or goes meanwhile, or comes back as a static member
    under another id, makes the group rebalance again (KAFKA-9801). So a generation becomes Stable
    with the members that it had when it began, or never. Otherwise a member under an id that the
    leader does not know owns nothing, and nobody reads what an id owns that is gone.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        self._told: dict[tuple[str, str], facts.GroupState] = {}  # by node and group

    def on_GroupState(self, seq: int, t: int, node: str, fact: facts.GroupState) -> None:
        """Compare the members at the begin and at the end of a rebalance."""
        place = (node, fact.group)
        told = self._told.get(place)
        if fact.state == "CompletingRebalance":
            if told is None or told.generation != fact.generation:
                self._told[place] = fact
            return
        self._told.pop(place, None)
        if told is None or fact.state != "Stable" or fact.generation != told.generation:
            return
        if fact.reason != LOADED and sorted(fact.member_ids) != sorted(told.member_ids):
            self._findings.add(
                "changed-generation", seq, t, self._history.group_key(fact.group),
                f"generation {fact.generation} of group {fact.group} is Stable with"
                f" {', '.join(fact.member_ids)}; its leader was told of"
                f" {', '.join(told.member_ids)}",
            )  # fmt: skip

    def on_GroupConverted(self, _s: int, _t: int, node: str, fact: facts.GroupConverted) -> None:
        """From now on the states of a consumer group are told, and it may be Stable, too."""
        self._told.pop((node, fact.group), None)


class OldOwners:
    """EXCL in ZooKeeper: what old consumers of one group may hold, and when (KAFKA.md, 3.5).

    A partition has one owner: the consumer whose claim ZooKeeper has confirmed, until the consumer
    sends the deletion, its session ends, or its process does. Three things must not happen:

    - a consumer claims a partition that another one holds;
    - a consumer gets a record of a partition that it has released and not claimed again;
    - a consumer releases what it held when its session ended: the znode is the next owner's by
      then. A rebalance that was under way at that moment may do so in Kafka, too, and is not
      judged.

    A consumer whose session has ended does not know it at once and goes on for a while. That breaks
    no promise: no fencing is promised. A claim is told when its answer arrives and a release when
    it is sent. A claim that is told after its session has ended is void: the znode went with the
    session, and the answer had waited for a consumer that was paused (ZooKeeper:
    DataTree.killSession).

    A deletion waits for the connection, also for that of the next session
    (ZkClient.retryUntilConnected in ZkUtils.deletePath), and names no owner. So one that was sent
    before the session ended may remove the znode of the next owner, who does not hear of it: that
    one holds the partition no more.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        self._owner: dict[tuple[str, str], str] = {}  # (group, topic-partition) -> consumer
        self._node: dict[Member, str] = {}
        self._holds: dict[Member, dict[str, None]] = {}  # since its last rebalance ended
        self._lost: dict[Member, dict[str, None]] = {}  # held when its session ended
        self._released: dict[Member, dict[str, None]] = {}
        self._deleting: dict[Member, str] = {}  # whose last act was to send this deletion
        self._session: dict[str, int] = {}  # host -> its session, as it knows it
        self._ending: dict[str, None] = {}  # hosts whose session the ensemble is ending
        self._over: dict[str, int] = {}  # host -> its last session that the ensemble has ended

    def on_PartitionOwner(self, seq: int, t: int, node: str, fact: facts.PartitionOwner) -> None:
        """Judge what a consumer claims or releases."""
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

    def on_RebalanceAttempt(
        self, _seq: int, _t: int, _n: str, fact: facts.RebalanceAttempt
    ) -> None:
        """Note what a consumer holds after a rebalance."""
        self._deleting.pop((fact.group, fact.member_id), None)
        if fact.outcome == "done":
            own = [
                name
                for (group, name), owner in self._owner.items()
                if (group, owner) == (fact.group, fact.member_id)
            ]
            self._holds[fact.group, fact.member_id] = dict.fromkeys(own)

    def on_ConsumerRevoked(
        self, _seq: int, _t: int, _node: str, fact: facts.ConsumerRevoked
    ) -> None:
        """From here on a rebalance is under way, which releases what was held."""
        self._holds.pop((fact.group, fact.member_id), None)

    def on_Polled(self, seq: int, t: int, _node: str, fact: facts.Polled) -> None:
        """Judge what a consumer gets."""
        released = self._released.get((fact.group, fact.member_id))
        if not released or not fact.offsets:
            return
        created = self._history.topics.get(fact.topic_id)
        name = f"{created.topic if created else fact.topic_id}-{fact.partition}"
        if name in released:
            self._violated(
                seq, t, fact,
                f"{fact.member_id} gets offset {fact.offsets[0]} of {name}, which it has released",
            )  # fmt: skip

    # Sessions and processes.

    def on_ZooKeeperConnection(
        self, _s: int, _t: int, node: str, fact: facts.ZooKeeperConnection
    ) -> None:
        """Take what it held from a consumer with a new session."""
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

    def on_ZooKeeperSession(
        self, _s: int, _t: int, _node: str, fact: facts.ZooKeeperSession
    ) -> None:
        """Take what it held from a consumer whose session has ended."""
        if self._session.get(fact.client) != fact.session_id:
            return
        if fact.event == "expiring":
            self._ending[fact.client] = None
        elif fact.event in ("expired", "closed"):
            self._over[fact.client] = fact.session_id
            for member in self._members_of(fact.client):
                self._drop(member)

    def on_HostStopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        """Forget the consumers of a process."""
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
            topic_id = self._history.topic_id(fact.topic)
        key = (topic_id, fact.partition)
        self._findings.add("EXCL", seq, t, key, f"group {fact.group}: {text}")
