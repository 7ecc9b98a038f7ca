"""UniformAssignor: as equal as possible, then as few moves as possible; the default of KIP-848.

If all members subscribe to the same topics, each has a quota: it keeps what it has up to that, and
those with room get the rest (UniformHomogeneousAssignmentBuilder). Otherwise see heterogeneous.py.

The quotas of two members differ by one at most. Kafka 4.0 gives the higher ones to the first
members; since 4.1 a member that owns less gives its higher quota up, unless no more members follow
than there are higher quotas left (UniformHomogeneousAssignmentBuilder.maybeRevokePartitions of 4.1
and 4.2). So they go to members that own as many already, and then to the last ones.
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
    return _assign(spec, extra_last=False)


def uniform_assign_4_1(spec: GroupSpec) -> GroupAssignment:
    """Give every member the same number of partitions, up to one, and move fewer than 4.0 does."""
    return _assign(spec, extra_last=True)


def _assign(spec: GroupSpec, *, extra_last: bool) -> GroupAssignment:
    if not spec.members:
        return {}
    if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
        return _assign_homogeneous(spec, extra_last=extra_last)
    return assign_heterogeneous(spec)


def _assign_homogeneous(spec: GroupSpec, *, extra_last: bool) -> GroupAssignment:
    topic_ids = next(iter(spec.members.values())).topic_ids
    if not topic_ids:
        return {}
    owners = spec.owners()
    every = [(topic, number) for topic in topic_ids for number in range(spec.num_partitions(topic))]
    unassigned = [each for each in every if each not in owners]
    quota, extra = divmod(len(every), len(spec.members))
    kept: dict[str, list[tuple[str, int]]] = {}
    limits: dict[str, int] = {}
    for member_id, member in spec.members.items():
        limit = quota + (1 if extra else 0)
        kept[member_id], excess = _split(member.assignment, topic_ids, limit)
        unassigned += excess
        if extra_last and len(kept[member_id]) <= quota:
            limit = quota
        limits[member_id] = limit
        extra -= limit - quota
    lower = [member_id for member_id, limit in limits.items() if limit == quota]
    for member_id in lower[len(lower) - extra :]:
        limits[member_id] += 1
    rest = iter(unassigned)
    for member_id, limit in limits.items():
        kept[member_id] += islice(rest, limit - len(kept[member_id]))
    return {member_id: assignment_of(some) for member_id, some in kept.items()}


def _split(
    assignment: Assignment, topic_ids: tuple[str, ...], limit: int
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return what a member keeps of its subscribed topics, up to ``limit``, and the rest."""
    owned = [each for each in partitions_of(assignment) if each[0] in topic_ids]
    return owned[:limit], owned[limit:]


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform_assign, "range": range_assign}
"""By the names in group.consumer.assignors and in heartbeats."""
