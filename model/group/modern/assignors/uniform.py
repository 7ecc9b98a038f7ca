"""UniformAssignor: as equal as possible, then as few moves as possible; the default of KIP-848.

If all members subscribe to the same topics, each has a quota: it keeps what it has up to that, and
those with room get the rest (UniformHomogeneousAssignmentBuilder). Otherwise see heterogeneous.py.
"""

from __future__ import annotations

from itertools import islice

from kafkasim.model.group.modern.assignors.heterogeneous import assign_heterogeneous
from kafkasim.model.group.modern.assignors.range import range_assign
from kafkasim.model.group.modern.assignors.spec import (
    Assignor,
    GroupAssignment,
    GroupSpec,
    SubscriptionType,
)
from kafkasim.model.group.modern.state.assignment import Assignment, assignment_of, partitions_of


def uniform_assign(spec: GroupSpec) -> GroupAssignment:
    """Give every member the same number of partitions, up to one, and move few."""
    if not spec.members:
        return {}
    if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
        return _assign_homogeneous(spec)
    return assign_heterogeneous(spec)


def _assign_homogeneous(spec: GroupSpec) -> GroupAssignment:
    topic_ids = next(iter(spec.members.values())).topic_ids
    if not topic_ids:
        return {}
    owners = spec.owners()
    every = [(topic, number) for topic in topic_ids for number in range(spec.num_partitions(topic))]
    unassigned = [each for each in every if each not in owners]
    quota, extra = divmod(len(every), len(spec.members))
    kept: dict[str, list[tuple[str, int]]] = {}
    room: dict[str, int] = {}
    for i, (member_id, member) in enumerate(spec.members.items()):
        limit = quota + (1 if i < extra else 0)
        kept[member_id], excess = _split(member.assignment, topic_ids, limit)
        unassigned += excess
        room[member_id] = limit - len(kept[member_id])
    rest = iter(unassigned)
    for member_id, free in room.items():
        kept[member_id] += islice(rest, free)
    return {member_id: assignment_of(some) for member_id, some in kept.items()}


def _split(
    assignment: Assignment, topic_ids: tuple[str, ...], limit: int
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return what a member keeps of its subscribed topics, up to ``limit``, and the rest."""
    owned = [each for each in partitions_of(assignment) if each[0] in topic_ids]
    return owned[:limit], owned[limit:]


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform_assign, "range": range_assign}
"""By the names in group.consumer.assignors and in heartbeats."""
