"""How a member comes from what it owns to what it should own (CurrentAssignmentBuilder, KIP-848).

A member goes its own way: it gives up what is no longer its own, confirms that, takes the epoch of
the target assignment, and gets the rest as others release it. Nobody else waits for it, except for
its own partitions.

    STABLE ──a newer target──▶ to be revoked? ──yes──▶ UNREVOKED_PARTITIONS (epoch as it was)
                                  │ no                    │ owned partitions without the revoked
                                  ▼                       ▼
                         epoch := target epoch      reconcile again, one epoch further
                                  │
                     all free? ───┴──yes──▶ STABLE
                        └──no──▶ UNRELEASED_PARTITIONS, reconciled again with each heartbeat
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafkasim.model.group.modern.state.assignment import (
    EMPTY,
    Assignment,
    assignment_of,
    intersect,
    partitions_of,
    subtract,
    union,
)
from kafkasim.model.group.modern.state.member import ConsumerGroupMember, MemberState

FREE = -1
"""The epoch of a partition that no member owns."""

PartitionEpoch = Callable[[str, int], int]  # (topic id, partition) -> its owner's member epoch


class UnknownStateError(Exception):
    """A member in an unknown state reports partitions: it has to be fenced."""


def reconcile(
    member: ConsumerGroupMember,
    target_epoch: int,
    target: Assignment,
    partition_epoch: PartitionEpoch,
    owned: Assignment | None,
) -> ConsumerGroupMember:
    """Return the member after its next step towards ``target``; itself if it cannot take one.

    ``owned`` is what its heartbeat reports, None if the heartbeat reports nothing.

    Raises:
        UnknownStateError: the member's state is unknown and it may own partitions.
    """
    state = member.state
    epoch = member.member_epoch
    if state is MemberState.STABLE:
        if epoch == target_epoch:
            return member
    elif state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, member.revoking):
            return member
        epoch += 1
    elif state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise UnknownStateError(member.member_id)
        epoch = target_epoch
    return next_assignment(
        member, epoch, member.assigned, target_epoch, target, partition_epoch, owned
    )


def next_assignment(
    member: ConsumerGroupMember,
    epoch: int,
    assigned: Assignment,
    target_epoch: int,
    target: Assignment,
    partition_epoch: PartitionEpoch,
    owned: Assignment | None,
) -> ConsumerGroupMember:
    """Return the member on its way from ``assigned`` to ``target`` (computeNextAssignment).

    ``epoch`` is what it stays at if it has to revoke partitions first.
    """
    kept = intersect(assigned, target)
    revoking = subtract(assigned, kept)
    if revoking and _owns_any(owned, revoking):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            member_epoch=epoch,
            previous_member_epoch=member.member_epoch,
            assigned=kept,
            revoking=revoking,
        )
    wanted = list(partitions_of(subtract(target, kept)))
    released = [each for each in wanted if partition_epoch(*each) == FREE]
    waits = len(released) < len(wanted)
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        member_epoch=target_epoch,
        previous_member_epoch=member.member_epoch,
        assigned=union(kept, assignment_of(released)),
        revoking=EMPTY,
    )


def _owns_any(owned: Assignment | None, revoking: Assignment) -> bool:
    """Return whether a member may still own partitions that it has to revoke."""
    return owned is None or bool(intersect(owned, revoking))
