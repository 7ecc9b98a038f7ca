"""RangeAssignor of the coordinator: consecutive partitions of each topic for each subscriber.

Members with a group.instance.id come first, by that id, then the others by their member id. Equal
topics are co-partitioned: member i gets the same numbers of each.
"""

from __future__ import annotations

from kafkasim.model.group.modern.assignors.spec import GroupAssignment, GroupSpec
from kafkasim.model.group.modern.state.assignment import assignment_of


def range_assign(spec: GroupSpec) -> GroupAssignment:
    """Give each subscriber of a topic consecutive partitions of it; the first get one more."""
    order = sorted(spec.members, key=lambda member_id: _place(spec, member_id))
    subscribers: dict[str, list[str]] = {}
    for member_id in order:
        for topic_id in spec.members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    given: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in order}
    for topic_id, consumers in subscribers.items():
        quota, extra = divmod(spec.num_partitions(topic_id), len(consumers))
        start = 0
        for i, member_id in enumerate(consumers):
            end = start + quota + (1 if i < extra else 0)
            given[member_id].extend([(topic_id, number) for number in range(start, end)])
            start = end
    return {member_id: assignment_of(some) for member_id, some in given.items()}


def _place(spec: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = spec.members[member_id].instance_id
    return (instance_id is None, member_id if instance_id is None else instance_id)
