"""Facts recorded by the servers of a ZooKeeper ensemble and by their clients."""

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


@value
class ZooKeeperConnection:
    """A client learned a new state of its session."""

    session_id: int
    state: str  # CONNECTED | DISCONNECTED | EXPIRED | CLOSED
    server: str  # that confirmed it, "" if none did
