"""What a leader knows of one follower (kafka.cluster.Replica, ReplicaState).

Left out: log directories of a replica, the follower's own high watermark.
"""

from __future__ import annotations

UNKNOWN = -1
LONG_AGO = -(1 << 62)  # microseconds; Kafka writes 0 (1970), but a simulated clock begins at 0


class RemoteReplica:
    """A follower's progress, as the leader knows it from the follower's fetches."""

    __slots__ = (
        "broker_epoch",
        "id",
        "last_caught_up_us",
        "last_fetch_leader_end",
        "last_fetch_us",
        "leo",
        "log_start_offset",
    )

    def __init__(self, replica_id: int) -> None:
        self.id = replica_id
        self.leo = UNKNOWN  # log end offset; −1 until the first fetch of this leader epoch
        self.log_start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN  # −1 also for a follower that sends none
        self.last_fetch_leader_end = 0  # the leader's log end offset at the last fetch
        self.last_fetch_us = LONG_AGO
        self.last_caught_up_us = LONG_AGO

    def reset(self, last_caught_up_us: int) -> None:
        """Forget the progress; the follower counts as caught up at ``last_caught_up_us``."""
        self.leo = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.last_fetch_leader_end = 0
        self.last_fetch_us = LONG_AGO
        self.last_caught_up_us = last_caught_up_us

    def __repr__(self) -> str:
        return f"RemoteReplica({self.id}, leo={self.leo}, caught up {self.last_caught_up_us})"
