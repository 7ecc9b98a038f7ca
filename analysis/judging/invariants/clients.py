"""STABLEREAD, EXCL, OFFSET, stale-commit: guarantees for clients and groups.

A coordinator accepts only commits of a classic group's current generation, so in the log the
commits of an older generation precede those of a newer one (ILLEGAL_GENERATION;
ClassicGroup.validateOffsetCommit). After a deletion the generations of a group begin again. A
transaction's offsets become commits when it ends, and members of a consumer group (KIP-848) have
epochs of their own, so neither is judged.
"""

from __future__ import annotations

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.readers.removed_offsets import (
    DeletedOffsets,
    ExpiredOffsets,
    GroupEnds,
    is_replaced,
)
from kafkasim.analysis.judging.source import instance_of
from kafkasim.model import facts


class Clients:
    """Follows what consumers read, and what group coordinators acknowledged."""

    def __init__(self, cluster: TracedCluster, retention_us: int) -> None:
        self.cluster = cluster
        self._read: dict[tuple[str, int], dict[int, int]] = {}
        # By group and generation: partition -> the member that owns it, and the row that says so.
        self._owners: dict[tuple[str, int], dict[str, tuple[str, int]]] = {}
        self._told: dict[str, dict[str, None]] = {}  # group -> members that had an assignment
        # By group, topic and partition: row and time that acknowledged the last commit, the commit.
        self._committed: dict[tuple[str, str, int], tuple[int, int, facts.OffsetCommitted]] = {}
        self._deletions = DeletedOffsets(cluster.trace)
        self._expiries = ExpiredOffsets(cluster.trace, retention_us)
        self._coordinator_epoch: dict[str, int] = {}
        self._ends = GroupEnds(cluster.trace, cluster.group_key)
        # By group, coordinator's epoch and life: the newest generation that has committed, the row.
        self._generation: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._unordered: dict[str, None] = {}  # groups whose commits have no order of generations
        self._deleted: dict[str, None] = {}  # names of topics
        self._dynamic: dict[tuple[str, str], None] = {}  # (group, member id), as JoinGroups tell
        self._instances: dict[str, dict[str, None]] = {}  # group -> the group.instance.ids
        trace = cluster.trace
        trace.subscribe(facts.Polled, self._on_polled)
        trace.subscribe(facts.GroupAssigned, self._on_assigned)
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)
        trace.subscribe(facts.TransactionOffsets, self._on_transaction)
        trace.subscribe(facts.OffsetFetched, self._on_fetched)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.TopicDeletionQueued, self._on_topic_deleted)

    def _on_polled(self, seq: int, t: int, node: str, fact: facts.Polled) -> None:
        key = (fact.topic_id, fact.partition)
        read = self._read.get(key)
        if read is None:
            read = self._read[key] = {}
        for offset, record_id in zip(fact.offsets, fact.record_ids):
            known = read.setdefault(offset, record_id)
            if known != record_id:
                read[offset] = record_id
                lost = self.cluster.partition(*key).lost(offset)
                self.cluster.violated(
                    "STABLEREAD", seq, t, key,
                    f"{node} read record {record_id} at offset {offset}, where another read gave"
                    f" record {known}", lost,
                )  # fmt: skip
        if fact.offsets:
            state, last = self.cluster.partition(*key), fact.offsets[-1]
            exposed = state.exposed
            if last >= exposed:
                self.cluster.violated(
                    "STABLEREAD", seq, t, key,
                    f"{node} read offset {last}, not below the high watermark"
                    f" {exposed}", state.lost(last),
                )  # fmt: skip

    def _on_assigned(self, seq: int, t: int, _node: str, fact: facts.GroupAssigned) -> None:
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
                key = self.cluster.group_key(fact.group)
                self.cluster.violated(
                    "EXCL", seq, t, key,
                    f"group {fact.group}, generation {fact.generation}: {known} and"
                    f" {fact.member_id} both own {name}",
                    self.cluster.lost_between(key, since, seq),
                )  # fmt: skip

    def _on_request(self, _s: int, _t: int, _n: str, fact: facts.MemberRequest) -> None:
        if fact.api == "ConsumerGroupHeartbeat":
            self._unordered[fact.group] = None
        if fact.instance_id is not None:
            self._instances.setdefault(fact.group, {})[fact.instance_id] = None
        elif fact.api == "JoinGroup" and fact.member_id:
            self._dynamic[fact.group, fact.member_id] = None

    def _instance_of(self, group: str, member_id: str) -> str:
        """Return the group.instance.id of a classic member, "" for one that is known as dynamic.

        Its id begins with its client.id, which may be the group.instance.id of another one.
        """
        return "" if (group, member_id) in self._dynamic else instance_of(member_id)

    def _on_state(self, seq: int, t: int, _node: str, fact: facts.GroupState) -> None:
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
                self.cluster.violated(
                    "EXCL", seq, t, self.cluster.group_key(fact.group),
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

    def _on_transaction(self, _s: int, _t: int, _n: str, fact: facts.TransactionOffsets) -> None:
        self._unordered[fact.group] = None

    def _on_committed(self, seq: int, t: int, node: str, fact: facts.OffsetCommitted) -> None:
        self._judge_generation(seq, t, node, fact)
        epoch = self._coordinator_epoch.get(fact.group, -1)
        if fact.coordinator_epoch >= epoch:
            self._coordinator_epoch[fact.group] = fact.coordinator_epoch
            self._committed[(fact.group, fact.topic, fact.partition)] = (seq, t, fact)

    def _judge_generation(self, seq: int, t: int, node: str, fact: facts.OffsetCommitted) -> None:
        """stale-commit: a coordinator stores no commit of an older generation than one before."""
        if fact.generation < 0 or fact.group in self._unordered:
            return
        place = (fact.group, fact.coordinator_epoch, self._ends.life(node, fact))
        newest, since = self._generation.get(place, (-1, -1))
        if fact.generation >= newest:
            self._generation[place] = (fact.generation, seq)
            return
        key = self.cluster.group_key(fact.group)
        self.cluster.violated(
            "stale-commit", seq, t, key,
            f"{node} stored a commit of {fact.member_id} in generation {fact.generation} of group"
            f" {fact.group}, after one of generation {newest}",
            self.cluster.lost_between(key, since, seq),
        )  # fmt: skip

    def _on_topic_deleted(
        self, _seq: int, _t: int, _n: str, fact: facts.TopicDeleted | facts.TopicDeletionQueued
    ) -> None:
        """Allow that committed offsets of the topic disappear, some time later.

        A ZooKeeper controller tells the brokers that the topic is gone, and then deletes it
        (TopicDeletionManager.onTopicDeletion, GroupCoordinator.handleDeletedPartitions).
        """
        self._deleted[fact.topic] = None

    def _on_fetched(self, seq: int, t: int, node: str, fact: facts.OffsetFetched) -> None:
        if fact.coordinator_epoch < self._coordinator_epoch.get(fact.group, -1):
            return  # a deposed coordinator: its clients find the next one
        place = (fact.group, fact.topic, fact.partition)
        since, at, commit = self._committed.get(place, (-1, -1, None))
        if commit is None or fact.offset >= commit.offset:
            return
        gone = fact.offset < 0 and (
            fact.topic in self._deleted or self._expiries.cover(fact.group, at, t)
        )
        if gone or self._deletions.cover(since, commit):
            return
        key = self.cluster.group_key(fact.group)
        if not is_replaced(self.cluster.view(node, *key), fact, commit):
            self.cluster.violated(
                "OFFSET", seq, t, key,
                f"{node} answered offset {fact.offset} for {fact.topic}-{fact.partition} of group"
                f" {fact.group}, after a commit of {commit.offset} was acknowledged",
                self.cluster.lost_between(key, since, seq),
            )  # fmt: skip
