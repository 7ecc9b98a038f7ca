"""Facts: the quorum and the controller."""

from __future__ import annotations

from model.values import value


@value
class RaftRole:
    """A voter changed its role: unattached, prospective, candidate, follower, leader, resigned."""

    role: str
    epoch: int
    leader: int


@value
class MetadataCommitted:
    """A replica of the metadata log applied up to ``offset``; ``digest`` chains what it applied."""

    offset: int
    epoch: int
    digest: int


@value
class ControllerActive:
    """A controller claims (``active``) or renounces leadership of the metadata."""

    epoch: int
    active: bool


@value
class TopicCreated:
    """A topic exists, as committed by the active controller at metadata ``offset``."""

    offset: int
    topic_id: str
    topic: str
    partitions: int
    replication_factor: int
    min_isr: int


@value
class BrokerRegistration:
    """A broker's registration, as committed at metadata ``offset``.

    ``change``: registered | fenced | unfenced | shutting-down | unregistered.
    ``fenced`` and ``shutting_down`` are the state afterwards.
    """

    offset: int
    broker: int
    broker_epoch: int
    change: str
    fenced: bool
    shutting_down: bool
    rack: str | None


@value
class PartitionChanged:
    """A partition's state, as committed at metadata ``offset``.

    An offset counts once: a new controller repeats what its predecessor committed and could not
    tell, so a reader ignores an offset not above the last one it saw (so too for the two facts
    above). ``reason``: created | lag | caught-up | fenced |
    unfenced | controlled-shutdown | reassignment | unclean | dir-offline | preferred | registered;
    ``unclean`` is True when the leader was elected outside ISR and ELR.
    """

    offset: int
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    reason: str
    unclean: bool
