"""Which replica a consumer reads from: ReplicaSelector and RackAwareReplicaSelector (KIP-392).

A pure choice among views of replicas; whether a replica may be chosen at all is a rule
(ReplicationRules.may_be_read_from).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkasim.model.replication.partition.partition import Partition

NO_PREFERENCE = -1


def preferred_read_replica(partition: Partition, rack: str, offset: int) -> int:
    """Return the follower that a consumer of ``rack`` is sent to, −1 to be served here.

    The leader keeps whom it can serve from the same rack; else the follower of that rack with the
    largest log end offset, then the one that was caught up last.
    """
    brokers = partition.brokers
    leader = brokers.get(partition.local_id)
    if not rack or (leader is not None and leader.rack == rack):
        return NO_PREFERENCE
    best = NO_PREFERENCE
    best_rank = (-1, 0)
    for replica, remote in partition.remotes.items():
        broker = brokers.get(replica)
        if (
            broker is not None
            and broker.rack == rack
            and partition.rules.may_be_read_from(partition, remote, offset)
        ):
            rank = (remote.leo, remote.last_caught_up_us)
            if rank > best_rank:
                best, best_rank = replica, rank
    return best
