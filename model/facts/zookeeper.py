"""Facts recorded by the servers of a ZooKeeper ensemble and by their clients.

The last ones are of the old consumers, whose groups live in ZooKeeper.
"""

from __future__ import annotations

from kafkasim.model.values import value


@value
class ZooKeeperRole:
    """A server began to serve clients, as leader or follower, or ceased to."""

    role: str  # leading | following | looking (it ceased)
    epoch: int
    leader: int  # a server's number, −1 unknown


@value
class ZooKeeperSession:
    """What became of a session; the ensemble's leader records it.

    A new leader records again what its predecessor committed and may not have recorded, so a reader
    counts a zxid once.
    """

    session_id: int
    # created | touched (told once a tick) | moved (to another server) | closed (by its client) |
    # expiring (its end is proposed) | expired
    event: str
    client: str  # the process that owns it
    server: str  # where it is attached, "" unknown
    zxid: int  # of the record; −1 for touched, moved and expiring
    # Of expiring: since the leader heard of it last, or began to lead; and its timeout.
    silent_us: int = -1
    timeout_us: int = -1


@value
class ZooKeeperConnection:
    """A client learned a new state of its session."""

    session_id: int
    state: str  # CONNECTED | DISCONNECTED | EXPIRED | CLOSED
    server: str  # that confirmed it, "" if none did


@value
class PartitionOwner:
    """An old consumer claimed a partition in its group's registry of owners, or gave it up."""

    group: str
    member_id: str
    topic: str
    partition: int
    # claimed (told when ZooKeeper has answered) | conflict (the znode was another's) | released
    # (told when the deletion is sent: from then on the partition is free for others)
    event: str
    owner: str  # of a conflict: the thread that the znode names


@value
class RebalanceAttempt:
    """An old consumer's attempt at a rebalance ended, or all its attempts did."""

    group: str
    member_id: str
    attempt: int  # from 1
    outcome: str  # done | no-brokers | conflict | error | gave-up (rebalance.max.retries)
    reason: str  # of an error
