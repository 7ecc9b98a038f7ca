"""Facts about groups: their states, and who owns which partitions."""

from __future__ import annotations

from typing import Any

from kafkasim.model.facts import GroupAssigned, GroupState
from kafkasim.model.group.classic.group import ClassicGroup, ClassicMember


class GroupTrace:
    """Writes :class:`GroupState` and :class:`GroupAssigned` facts."""

    def __init__(self, out: list[Any]) -> None:
        self._out = out

    def record_state(self, group: ClassicGroup, reason: str) -> None:
        """Write the group's state, generation and members."""
        self._out.append(
            GroupState(
                group.group_id,
                group.state.value,
                group.generation,
                tuple(group.members),
                group.protocol or "",
                reason,
            )
        )

    def record_assigned(self, group: ClassicGroup) -> None:
        """Write what each member owns in this generation."""
        for member in group.members.values():
            self._record_assignment(group, member)

    def record_replaced(self, group: ClassicGroup, old_id: str, member: ClassicMember) -> None:
        """Write that a static member's partitions are now owned under another member id."""
        self._out.append(GroupAssigned(group.group_id, group.generation, old_id, ()))
        self._record_assignment(group, member)

    def _record_assignment(self, group: ClassicGroup, member: ClassicMember) -> None:
        assignment = tuple([str(tp) for tp in member.assignment])
        self._out.append(
            GroupAssigned(group.group_id, group.generation, member.member_id, assignment)
        )
