"""Facts: the quorum and the controller."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class RaftRole:
    """A voter changed its role: unattached, prospective, candidate, follower, leader, resigned."""

    role: str
    epoch: int
    leader: int


@value
class VotersChanged:
    """A controller goes by another set of voters (KIP-853): that of the record at ``offset`` of its
    log, committed or not; −1: that of the configuration, the record being truncated."""

    offset: int
    voters: tuple[int, ...]
    directory_ids: tuple[str, ...]  # "" for a voter of the configuration


@value
class MetadataCommitted:
    """A replica of the metadata log applied up to ``offset``; ``digest`` chains what it applied."""

    offset: int
    epoch: int
    digest: int


@value
class MetadataSnapshot:
    """A replica of the metadata log ``created`` a snapshot of all below ``end_offset``, ``loaded``
    a leader's, or started its log at one (``cleaned``)."""

    event: str
    end_offset: int
    epoch: int


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
class TopicDeleted:
    """A topic is gone, as committed at metadata ``offset``; the brokers' logs go later."""

    offset: int
    topic_id: str
    topic: str


@value
class ConfigChanged:
    """A setting of ``resource`` (topic:NAME, broker:ID or broker: for the default of all) changed,
    as committed at metadata ``offset``; ``value`` None: it was taken away."""

    offset: int
    resource: str
    config: str
    value: str | None


@value
class BrokerRegistration:
    """A broker's registration, as committed at metadata ``offset``.

    ``change``: registered | fenced | unfenced | shutting-down | unregistered | dir-offline, with ZooKeeper also
    bounced: a newer registration has replaced one that was not missed yet, and is told next.
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
    unfenced | controlled-shutdown | reassignment | unclean | dir-offline | preferred | registered
    | unregistered | loaded (a ZooKeeper controller found it); ``unclean`` is True when the leader was elected outside ISR and ELR.
    ``adding_replicas`` and ``removing_replicas`` are those of a reassignment in progress.
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
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0  # 1: RECOVERING


@value
class ZkControllerWrite:
    """A ZooKeeper controller's write took effect: transaction ``offset`` (the zxid) changed the
    znode ``path``, now at ``version``, by the controller of ``controller_epoch``. Its election is
    the write to /controller_epoch. Told when the writer has the answer, so not in order."""

    offset: int
    controller_epoch: int
    path: str
    version: int


@value
class ControlRequest:
    """A broker obeyed a ZooKeeper controller's request, or refused it as a whole: ``error`` is
    then STALE_CONTROLLER_EPOCH (a newer one was heard of) or STALE_BROKER_EPOCH."""

    api: str
    controller: int
    controller_epoch: int
    error: str
