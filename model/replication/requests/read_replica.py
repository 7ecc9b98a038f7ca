"""Which replica a consumer reads from: ReplicaSelector and RackAwareReplicaSelector (KIP-392).

A pure choice among views of replicas; whether a replica may be chosen at all is a rule
(ReplicationRules.may_be_read_from).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkasim.model.replication.partitions.leader_state import LeaderState

NO_PREFERENCE = -1


def preferred_read_replica(leader: LeaderState, rack: str, offset: int) -> int:
    """Return the follower that a consumer of ``rack`` is sent to, −1 to be served by the leader.

    A leader in the same rack serves the consumer itself. Otherwise the follower of that rack with
    the largest log end offset does; among equals, the one that was caught up last.
    """
    brokers = leader.brokers
    here = brokers.get(leader.leader_id)
    if not rack or (here is not None and here.rack == rack):
        return NO_PREFERENCE
    best = NO_PREFERENCE
    best_rank = (-1, 0)
    for replica, remote in leader.remotes.items():
        broker = brokers.get(replica)
        if (
            broker is not None
            and broker.rack == rack
            and leader.rules.may_be_read_from(leader, remote, offset)
        ):
            rank = (remote.leo, remote.last_caught_up_us)
            if rank > best_rank:
                best, best_rank = replica, rank
    return best
