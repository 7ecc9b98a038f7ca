"""Facts: the ZooKeeper ensemble, its sessions, and its clients."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class ZooKeeperRole:
    """A server began or ceased to serve clients: ``leading``, ``following`` or ``looking``."""

    role: str
    epoch: int
    leader: int


@value
class ZooKeeperSession:
    """A session ``created``, ``expired`` or ``closed`` by a committed record, or ``moved``.

    Told by the leader. ``zxid`` is that of the record, −1 for a move; a reader counts a zxid once,
    since a new leader repeats what its predecessor may not have told. ``client`` is who owns the
    session, ``server`` where it is attached (empty: unknown).
    """

    session_id: int
    event: str
    client: str
    server: str
    zxid: int


@value
class ZooKeeperConnection:
    """What a client knows of its session: CONNECTED, DISCONNECTED, EXPIRED or CLOSED."""

    session_id: int
    state: str
    server: str
