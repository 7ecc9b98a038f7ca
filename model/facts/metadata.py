"""Facts about metadata, recorded by the quorum, by controllers and by brokers."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class RaftRole:
    """A voter of the quorum changed its role, or a leader that is no voter any more ended its."""

    role: str  # unattached | prospective | candidate | follower | leader | resigned
    epoch: int
    leader: int  # −1 unknown


@value
class VotersChanged:
    """A controller uses another set of voters (KIP-853)."""

    offset: int  # of the record in its log, committed or not; −1: the configuration's set
    voters: tuple[int, ...]
    directory_ids: tuple[str, ...]  # "" for a voter of the configuration


@value
class MetadataCommitted:
    """A replica of the metadata log applied committed records."""

    offset: int  # of the last one
    epoch: int
    digest: int  # of all records up to it: equal on all replicas


@value
class MetadataSnapshot:
    """A replica of the metadata log wrote or used a snapshot (KIP-630)."""

    event: str  # created | loaded (from the leader) | cleaned (its log now starts there)
    end_offset: int  # the snapshot has all records below
    epoch: int


@value
class ControllerActive:
    """A controller became the active one, or ceased to be it."""

    epoch: int
    active: bool  # True: became
    reason: str = ""  # in words: what ended the leadership before this one, or this one


@value
class TopicCreated:
    """A topic was created, committed at metadata ``offset``."""

    offset: int
    topic_id: str
    topic: str
    partitions: int
    replication_factor: int
    min_isr: int


@value
class CreationRefused:
    """The controller refused a topic that a broker wanted; told once for each topic and error.

    Clients and coordinators make brokers want it (AutoTopicCreationManager).
    """

    topic: str
    error: str
    reason: str  # the message that came with the error


@value
class TopicDeleted:
    """A topic was deleted, committed at metadata ``offset``; brokers delete its logs later."""

    offset: int
    topic_id: str
    topic: str


@value
class TopicDeletionQueued:
    """A ZooKeeper controller knows that a topic is to be deleted: it tells brokers it is gone.

    TopicDeleted follows when all replicas are deleted.
    """

    topic_id: str
    topic: str


@value
class ConfigChanged:
    """A dynamic setting changed, committed at metadata ``offset``."""

    offset: int
    resource: str  # topic:NAME, broker:ID, or broker: for the default of all brokers
    config: str
    value: str | None  # None: the setting was removed


@value
class AclChanged:
    """An access control entry was added or removed, committed at metadata ``offset``."""

    offset: int
    added: bool
    id: str
    resource_type: str
    name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


@value
class Authorized:
    """A broker's authorizer decided, for the first time or otherwise than before.

    ``name`` "" stands for any resource of the type. ``rule`` is the entry that decided, "" if none
    did. ``offset`` is how far the broker's metadata image had come.
    """

    principal: str
    host: str
    operation: str
    resource_type: str
    name: str
    allowed: bool
    rule: str
    offset: int


@value
class BrokerRegistration:
    """A broker's registration changed, committed at metadata ``offset``.

    ``change`` is registered, fenced, unfenced, shutting-down, unregistered or dir-offline. A
    ZooKeeper controller also records bounced: the broker had registered anew before the controller
    missed it; the fact of the new registration follows.
    """

    offset: int
    broker: int
    broker_epoch: int
    change: str
    fenced: bool  # afterwards
    shutting_down: bool  # afterwards
    rack: str | None


@value
class BrokerHeartbeat:
    """The active controller received a broker's heartbeat, and has not judged it yet."""

    broker: int
    broker_epoch: int  # of the sender
    offset: int  # the last metadata offset that the broker has replayed
    want_fence: bool
    want_shut_down: bool


@value
class SessionEnded:
    """The active controller gave up a broker: its session has ended."""

    broker: int
    broker_epoch: int
    silent_us: int = -1  # since its last heartbeat, or since the controller began, by its clock
    session_us: int = -1  # broker.session.timeout.ms


@value
class PartitionChanged:
    """A partition's state after a change, committed at metadata ``offset``.

    A new controller records again what its predecessor committed and may not have recorded. So a
    reader of this fact, of BrokerRegistration and of ConfigChanged ignores an offset that is not
    above the last one that it has seen.

    ``reason`` is created, lag, caught-up, fenced, unfenced, controlled-shutdown, reassignment,
    unclean, dir-offline, preferred, registered, unregistered, min-isr (a new min.insync.replicas
    clears the ELR), deletion (a ZooKeeper controller takes the replicas of a topic offline first),
    or loaded: a ZooKeeper controller found the partition when it was elected.

    A ZooKeeper controller writes the assignment into another znode than the state. Then the fact
    repeats the state that the controller knows. A leader that writes its ISR itself (before
    inter.broker.protocol.version 2.7) may have changed it meanwhile, so a reader of leader and ISR
    ignores a partition epoch that is not above the last one.
    """

    offset: int
    topic_id: str
    partition: int
    leader: int  # −1: none
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    reason: str
    unclean: bool  # the leader was elected outside ISR and ELR
    elr: tuple[int, ...] = ()  # eligible leader replicas (KIP-966)
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()  # of a reassignment in progress, as the next
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0  # 1: RECOVERING


@value
class ZkControllerWrite:
    """A ZooKeeper controller's write took effect. Its election is the write to /controller_epoch.

    The controller records it when it has the answer, so these facts may be out of order.
    """

    offset: int  # the zxid of the transaction
    controller_epoch: int  # of the writer
    path: str
    version: int  # of the znode, after the write


@value
class StateChangeFailed:
    """A ZooKeeper controller could not write the first state of a partition, which stays new.

    With NODEEXISTS the state is there: the controller wrote it and lost the answer, and takes no
    notice of it until a controller is elected
    (PartitionStateMachine.initializeLeaderAndIsrForPartitions).
    """

    topic_id: str
    partition: int
    error: str  # of ZooKeeper


@value
class ControlRequest:
    """A broker executed a ZooKeeper controller's request, or refused it as a whole."""

    api: str
    controller: int
    controller_epoch: int
    error: str  # STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH for a refusal
