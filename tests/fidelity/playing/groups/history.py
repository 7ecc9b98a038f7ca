"""The normal form: the records of ``__consumer_offsets`` as text that two runs share.

Each group's records stand in the order of the log. Members have the names of their clients; a
second member id of a client is a second life of it: ``consumer-1'``. Without times, ids and hosts.

- Commits between two other records are one line, with the last offset of each partition: how many
  polls there were is a race. An offset is ``start`` (0), ``end`` (the log's when the schedule
  ended) or ``on the way``.
- Members of a record, and records of one kind that follow one another, are sorted by name: Kafka
  writes them in the order of a HashMap of drawn ids.
- What each member of a group of KIP-848 owns stands apart: which of them sends its heartbeat first
  is a race.
- A line says where another leader of the partition, so another coordinator, goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.fidelity.playing.groups.log import Entry
from tests.fidelity.playing.told import Told

SORTED = ("ConsumerGroupMemberMetadata", "ConsumerGroupTargetAssignmentMember")
"""Records of one kind that Kafka writes for several members in the order of a HashMap."""

STATES = {0: "stable", 1: "unrevoked", 2: "unreleased"}
"""State of a member of KIP-848 (MemberState)."""


class GroupHistory:
    """Reads a log of one partition from its beginning."""

    def __init__(self, topics: Mapping[str, str], ends: Mapping[tuple[str, int], int]) -> None:
        """``topics`` is id to name, ``ends`` where the logs of the partitions ended."""
        self._topics = topics
        self._ends = ends
        self._told = Told()
        self._names: dict[str, str] = {}  # member id -> name
        self._lives: dict[str, int] = {}  # client -> how many ids it had
        self._commits: dict[str, dict[tuple[str, int], str]] = {}  # by group, not yet told
        self._runs: dict[str, tuple[str, list[str]]] = {}  # by group: kind and lines, not yet told
        self._epochs: dict[str, int] = {}  # group -> leader epoch of its last record

    def lines(self, entries: Iterable[Entry]) -> list[str]:
        """Return the text of a log."""
        for entry in entries:
            group = entry.key.get("group") or entry.key["groupId"]
            if self._epochs.setdefault(group, entry.epoch) != entry.epoch:
                self._epochs[group] = entry.epoch
                self._say(group, "-- another coordinator")
            if entry.kind == "ConsumerGroupCurrentMemberAssignment":
                name = self._name(entry.key["memberId"])
                self._told.say(1, f"{group} {name}", f": {self._current(entry)}")
            elif entry.kind == "OffsetCommit":
                self._tell_run(group)
                self._commit(group, entry)
            elif entry.kind in SORTED:
                self._tell_commits(group)
                if self._runs.get(group, ("", []))[0] != entry.kind:
                    self._tell_run(group)
                    self._runs[group] = entry.kind, []
                self._runs[group][1].append(getattr(self, f"_{_snake(entry.kind)}")(entry))
            else:
                for line in getattr(self, f"_{_snake(entry.kind)}")(entry):
                    self._say(group, line)
        for group in self._epochs:
            self._tell(group)
        return self._told.lines()

    def _say(self, group: str, line: str) -> None:
        self._tell(group)
        self._told.say(0, group, f": {line}")

    def _tell(self, group: str) -> None:
        """Tell what was held back to be one line, or to be sorted."""
        self._tell_commits(group)
        self._tell_run(group)

    def _tell_run(self, group: str) -> None:
        for line in sorted(self._runs.pop(group, ("", []))[1]):
            self._told.say(0, group, f": {line}")

    def _tell_commits(self, group: str) -> None:
        commits = self._commits.pop(group, {})
        if commits:
            told = [f"{topic}-{number} {what}" for (topic, number), what in sorted(commits.items())]
            self._told.say(0, group, f": offsets {', '.join(told)}")

    # -------------------------------------------------------------------------- record by record

    def _commit(self, group: str, entry: Entry) -> None:
        tp = entry.key["topic"], entry.key["partition"]
        what = "removed"
        if entry.fields is not None:
            offset = entry.fields["offset"]
            what = "start" if offset == 0 else "on the way"
            if offset == self._ends.get(tp, -1):
                what = "end" if offset else "start"
            what += f" (epoch {entry.fields['leaderEpoch']})"
            if entry.fields["metadata"]:
                what += f" {entry.fields['metadata']!r}"
        self._commits.setdefault(group, {})[tp] = what

    def _group_metadata(self, entry: Entry) -> list[str]:
        found = entry.fields
        if found is None:
            return ["removed"]
        members = sorted(
            [(self._name(m["memberId"], m["clientId"]), m) for m in found["members"]],
            key=lambda each: each[0],
        )
        leader = self._names.get(found["leader"], found["leader"])
        head = f"generation {found['generation']}, type {found['protocolType'] or 'none'}"
        head += f", protocol {found['protocol']}, leader {leader}"
        return [head if members else f"{head}, empty", *[_member(*each) for each in members]]

    def _consumer_group_metadata(self, entry: Entry) -> list[str]:
        return [_or_removed("group epoch", entry.fields and entry.fields["epoch"])]

    def _consumer_group_partition_metadata(self, entry: Entry) -> list[str]:
        if entry.fields is None:
            return ["topics removed"]
        topics = sorted(
            (each["topicName"], each["numPartitions"]) for each in entry.fields["topics"]
        )
        return ["topics " + (", ".join(f"{name} ({n})" for name, n in topics) or "none")]

    def _consumer_group_member_metadata(self, entry: Entry) -> str:
        member_id, found = entry.key["memberId"], entry.fields
        if found is None:
            return f"member {self._name(member_id)} removed"
        told = f"member {self._name(member_id, found['clientId'])}{_instance(found['instanceId'])}"
        told += f": rebalance timeout {found['rebalanceTimeoutMs']}"
        told += f", topics {','.join(found['subscribedTopicNames']) or 'none'}"
        for key, name in (("subscribedTopicRegex", "pattern"), ("serverAssignor", "assignor"),
                          ("rackId", "rack")):  # fmt: skip
            if found[key]:
                told += f", {name} {found[key]}"
        classic = found["classicMemberMetadata"]
        if classic is not None:
            names = ",".join([each["name"] for each in classic["supportedProtocols"]])
            told += f", classic: session {classic['sessionTimeoutMs']}, {names}"
        return told

    def _consumer_group_regular_expression(self, entry: Entry) -> list[str]:
        topics = entry.fields and ",".join(sorted(entry.fields["topics"]))
        return [_or_removed(f"pattern {entry.key['regularExpression']}:", topics)]

    def _consumer_group_target_assignment_metadata(self, entry: Entry) -> list[str]:
        return [_or_removed("target epoch", entry.fields and entry.fields["assignmentEpoch"])]

    def _consumer_group_target_assignment_member(self, entry: Entry) -> str:
        name = self._name(entry.key["memberId"])
        if entry.fields is None:
            return f"target of {name} removed"
        return f"target of {name}: {self._assigned(entry.fields['topicPartitions'])}"

    def _current(self, entry: Entry) -> str:
        found = entry.fields
        if found is None:
            return "removed"
        told = f"epoch {found['memberEpoch']} after {found['previousMemberEpoch']}"
        told += f", {STATES[found['state']]}, {self._assigned(found['assignedPartitions'])}"
        revoking = found["partitionsPendingRevocation"]
        return f"{told}; revoking {self._assigned(revoking)}" if revoking else told

    def _name(self, member_id: str, client: str = "") -> str:
        """Return a member's name; its first record tells its client."""
        if member_id not in self._names:
            life = self._lives.get(client, 0)
            self._lives[client] = life + 1
            self._names[member_id] = client + "'" * life
        return self._names[member_id]

    def _assigned(self, topics: list[dict[str, Any]]) -> str:
        found = [
            (self._topics[each["topicId"]], number)
            for each in topics
            for number in each["partitions"]
        ]
        return _partitions(found)


def _member(name: str, member: dict[str, Any]) -> str:
    subscription = member["subscription"]
    told = f"  {name}{_instance(member['groupInstanceId'])}: session {member['sessionTimeout']}"
    told += f", rebalance {member['rebalanceTimeout']}"
    told += f", topics {','.join(subscription['topics'])}"
    told += f", assigned {_partitions(member['assignment'])}"
    if subscription["generationId"] >= 0 or subscription["ownedPartitions"]:
        owned = _partitions(subscription["ownedPartitions"])
        told += f", had {owned} of generation {subscription['generationId']}"
    if subscription["userData"] is not None:
        told += f", user data {subscription['userData']!r}"
    if member.get("assignmentUserData"):
        told += f", assigned with {member['assignmentUserData']!r}"
    return told


def _instance(instance_id: str | None) -> str:
    return f" [{instance_id}]" if instance_id is not None else ""


def _partitions(found: list[tuple[str, int]]) -> str:
    """Return ``orders-0,1 logs-2``."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(found):
        topics.setdefault(topic, []).append(number)
    return " ".join(f"{t}-{','.join(map(str, ns))}" for t, ns in topics.items()) or "nothing"


def _or_removed(what: str, found: Any) -> str:
    return f"{what} {'removed' if found is None else found}"


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))
