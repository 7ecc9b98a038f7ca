"""Who owns which partition now (ConsumerGroup.currentPartitionEpoch)."""

from __future__ import annotations

from kafkasim.model.group.modern.state.assignment import partitions_of
from kafkasim.model.group.modern.state.member import ConsumerGroupMember

PartitionEpochs = dict[tuple[str, int], int]
"""(topic id, partition) to the member epoch of its owner; a partition that is free is not there."""


def update_epochs(
    epochs: PartitionEpochs, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None
) -> None:
    """Free what a member owned and give it what it owns now; None: it is no member.

    It is a bug to free what the member does not own, or to give what is not free (KAFKA-16147).
    """
    for member in (old,) if old is not None else ():
        for owned in (member.assigned, member.revoking):
            for each in partitions_of(owned):
                epoch = epochs.pop(each, None)
                assert epoch == member.member_epoch, (each, epoch, member)
    for member in (new,) if new is not None else ():
        for owned in (member.assigned, member.revoking):
            for each in partitions_of(owned):
                assert each not in epochs, (each, epochs[each], member)
                epochs[each] = member.member_epoch
