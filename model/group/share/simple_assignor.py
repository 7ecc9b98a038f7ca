"""SimpleAssignor: each member by its hash, then even, with partitions shared (KIP-932).

If all members subscribe to the same topics:

    1  the hash of its id gives each member one partition, which others may have as well
    2  it keeps what it had, up to its even share, unless step 1 has given that partition away
    3  partitions that nobody has go round, even beyond the share by one

Otherwise step 2 has no limit, and step 3 gives away what nobody had before. Members and partitions
go by their ids, where Kafka has the order of its hash maps; ids are random.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkasim.model.coordinator.hashing import java_string_hash
from kafkasim.model.group.modern.assignors.spec import PartitionAssignorError, SubscriptionType
from kafkasim.model.group.modern.state.assignment import Assignment, assignment_of, partitions_of
from kafkasim.model.values import value

NAME = "simple"

Partition = tuple[str, int]
Owners = dict[Partition, list[str]]


@value
class ShareMemberSpec:
    """A member as the assignor sees it."""

    topic_ids: tuple[str, ...]  # that it subscribes to and that exist, rising
    assignment: Assignment  # its present target


@value
class ShareGroupSpec:
    """The members by id, rising, and the partitions of each topic that may be assigned."""

    members: Mapping[str, ShareMemberSpec]
    subscription_type: SubscriptionType
    assignable: Assignment


def simple_assign(spec: ShareGroupSpec) -> dict[str, Assignment]:
    """Return the assignment of each member; members without partitions may lack.

    Raises:
        PartitionAssignorError: no member has room for a partition; so shared are the others.
    """
    if not spec.members:
        return {}
    if spec.subscription_type is SubscriptionType.HETEROGENEOUS:
        return _assign_heterogeneous(spec)
    topic_ids = next(iter(spec.members.values())).topic_ids
    return _assign_homogeneous(spec, topic_ids) if topic_ids else {}


def _targets(spec: ShareGroupSpec, topic_ids: Iterable[str]) -> list[Partition]:
    return [
        (topic_id, number) for topic_id in topic_ids for number in spec.assignable.get(topic_id, ())
    ]


def _current(spec: ShareGroupSpec) -> Owners:
    owners: Owners = {}
    for member_id, member in spec.members.items():
        for partition in partitions_of(member.assignment):
            owners.setdefault(partition, []).append(member_id)
    return {partition: owners[partition] for partition in sorted(owners)}


def _by_hash(member_ids: Iterable[str], targets: list[Partition], owners: Owners) -> None:
    """Give each member the partition of its hash (memberHashAssignment).

    Java's remainder has the sign of the hash, so its absolute value is that of |hash|.
    """
    for member_id in member_ids if targets else ():
        place = abs(java_string_hash(member_id)) % len(targets)
        owners.setdefault(targets[place], []).append(member_id)


def _assign_homogeneous(spec: ShareGroupSpec, topic_ids: tuple[str, ...]) -> dict[str, Assignment]:
    members, targets = list(spec.members), _targets(spec, topic_ids)
    share = -(-len(targets) // len(members))
    hashed: Owners = {}
    _by_hash(members, targets, hashed)
    given: dict[str, dict[Partition, None]] = {member_id: {} for member_id in members}
    taken: dict[Partition, None] = dict.fromkeys(hashed)
    for partition, owners in hashed.items():
        for member_id in owners:
            given[member_id][partition] = None
    for partition, owners in _current(spec).items():
        if partition[0] not in topic_ids:
            continue
        for member_id in owners:
            if len(given[member_id]) < share and partition not in hashed:
                given[member_id][partition] = None
                taken[partition] = None
    unassigned = [partition for partition in targets if partition not in taken]
    _round_robin_with_count(members, unassigned, given, share)
    return {member_id: assignment_of(some) for member_id, some in given.items()}


def _round_robin_with_count(
    members: list[str],
    partitions: list[Partition],
    given: dict[str, dict[Partition, None]],
    share: int,
) -> None:
    """Give partitions to members in turn; a member above its share is passed over from then on."""
    turn, place = list(members), 0
    waiting = list(reversed(partitions))
    while waiting:
        if place >= len(turn):
            place = 0
            if not turn:
                raise PartitionAssignorError(members)
        own = given[turn[place]]
        if len(own) <= share:
            own[waiting.pop()] = None
            place += 1
        else:
            del turn[place]


def _assign_heterogeneous(spec: ShareGroupSpec) -> dict[str, Assignment]:
    subscribed = {
        member_id: _targets(spec, member.topic_ids)
        for member_id, member in spec.members.items()
        if member.topic_ids
    }
    targets = dict.fromkeys([each for some in subscribed.values() for each in some])
    members_of: dict[str, dict[str, None]] = {}
    for member_id, some in subscribed.items():
        for topic_id, _ in some:
            members_of.setdefault(topic_id, {})[member_id] = None
    assigned: Owners = {}
    for member_id, some in subscribed.items():
        _by_hash([member_id], some, assigned)
    current, hashed = _current(spec), dict.fromkeys(assigned)
    unassigned: dict[str, list[Partition]] = {}
    for partition in targets:
        if partition not in hashed and partition not in current:
            unassigned.setdefault(partition[0], []).append(partition)
    for topic_id, some in unassigned.items():
        turn = list(members_of[topic_id])
        for place, partition in enumerate(some):
            assigned.setdefault(partition, []).append(turn[place % len(turn)])
    given: dict[str, list[Partition]] = {member_id: [] for member_id in spec.members}
    for partition, owners in assigned.items():
        for member_id in owners:
            given[member_id].append(partition)
    for partition, owners in current.items():
        for member_id in owners:
            if member_id in members_of.get(partition[0], {}) and partition not in assigned:
                given[member_id].append(partition)
    return {member_id: assignment_of(some) for member_id, some in given.items()}
