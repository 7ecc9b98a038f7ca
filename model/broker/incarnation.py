"""The identity of one running broker process: ids, epoch, and whether it is stopping.

All parts of a broker read this object. One part of each mode writes it: in KRaft mode
:class:`~kafkasim.model.broker.kraft.lifecycle.BrokerLifecycle` (``epoch``) and the process
(``stopping``), in ZooKeeper mode the process alone.
"""

from __future__ import annotations

UNREGISTERED = -1


class Incarnation:
    """One run of a broker, from the start of its process to its end."""

    __slots__ = ("broker_id", "epoch", "name", "rack", "stopping")

    def __init__(self, broker_id: int, name: str, rack: str | None) -> None:
        self.broker_id = broker_id
        self.name = name  # the address at which clients and other brokers reach it
        self.rack = rack
        self.epoch = UNREGISTERED  # the broker epoch that the registration gave
        self.stopping = False  # set once the broker serves no request any more

    @property
    def registered(self) -> bool:
        """Whether the broker has been registered and so knows its broker epoch."""
        return self.epoch != UNREGISTERED
