"""The znodes of Kafka: their paths and their data (kafka.zk.ZkData).

Kafka encodes the data of a znode as JSON; here it is a value. Left out: SASL, delegation
tokens, features, the migration to KRaft.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from kafkasim.model.messages.clients.acls import (
    CLUSTER,
    GROUP,
    LITERAL,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
    AclBinding,
)
from kafkasim.model.messages.clients.admin import (
    CLIENT_ID,
    DEFAULT_NAME,
    USER,
    QuotaEntity,
    quota_entity,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
USER_CONFIGS = "/config/users"
CLIENT_CONFIGS = "/config/clients"
CLIENTS = "clients"  # the name of the znode below a user's that holds those of its clients
CONFIG_CHANGES = "/config/changes"
PRODUCER_IDS = "/latest_producer_id_block"
ACL_ROOTS = {LITERAL: "/kafka-acl", PREFIXED: "/kafka-acl-extended/prefixed"}
"""Where the entries of access control stand, by the type of their patterns (ZkAclStore)."""

ACL_CHANGES = {LITERAL: "/kafka-acl-changes", PREFIXED: "/kafka-acl-extended-changes"}
"""Where changes of them are announced (ZkAclChangeStore)."""

_ACL_TYPES = {
    TOPIC: "Topic",
    GROUP: "Group",
    CLUSTER: "Cluster",
    TRANSACTIONAL_ID: "TransactionalId",
}
ACL_PATHS = (
    "/kafka-acl-extended",
    *ACL_ROOTS.values(),
    *[f"{root}/{name}" for root in ACL_ROOTS.values() for name in _ACL_TYPES.values()],
    *ACL_CHANGES.values(),
)
"""The znodes that an AclAuthorizer creates at its start if they are missing (createAclPaths)."""

PERSISTENT_PATHS = (
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    USER_CONFIGS,
    CLIENT_CONFIGS,
    CONFIG_CHANGES,
    "/admin",
    DELETE_TOPICS,
    ISR_CHANGES,
    PRODUCER_IDS,
)
"""The znodes that every broker creates at its start if they are missing (PersistentZkPaths)."""

NO_LEADER = -1


@value
class BrokerInfo:
    """Data of ``/brokers/ids/N``, ephemeral. The znode's czxid is the broker epoch (KIP-380)."""

    id: int
    address: str
    rack: str | None


@value
class ControllerInfo:
    """Data of ``/controller``, ephemeral: which broker is the controller."""

    broker_id: int


@value
class ReplicaAssignment:
    """The replicas of a partition, and those of them that a reassignment adds and removes."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origins(self) -> tuple[int, ...]:
        """The replicas without those being added; their original order may be lost."""
        return tuple([replica for replica in self.replicas if replica not in self.adding])

    @property
    def targets(self) -> tuple[int, ...]:
        """The replicas once the reassignment is done."""
        return tuple([replica for replica in self.replicas if replica not in self.removing])

    @property
    def being_reassigned(self) -> bool:
        """Whether a reassignment of the partition is in progress."""
        return bool(self.adding or self.removing)

    def reassign_to(self, target: tuple[int, ...]) -> ReplicaAssignment:
        """Return the assignment while moving to ``target``: the targets, then the rest."""
        origins = self.origins
        every = tuple(dict.fromkeys((*target, *origins)))
        return ReplicaAssignment(
            every,
            tuple([replica for replica in every if replica not in origins]),
            tuple([replica for replica in every if replica not in target]),
        )


@value
class TopicAssignment:
    """Data of ``/brokers/topics/T``: the replicas by partition number, ascending."""

    topic_id: str
    partitions: tuple[tuple[int, ReplicaAssignment], ...]


@value
class LeaderAndIsr:
    """Data of ``/brokers/topics/T/partitions/P/state`` (LeaderIsrAndControllerEpoch).

    ``leader`` is −1 (:data:`NO_LEADER`) when there is none. The partition epoch is not part of the
    data; it is the version of the znode.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0


@value
class IsrChange:
    """Data of ``/isr_change_notification/isr_change_N``: partitions with a new state."""

    partitions: tuple[TopicPartition, ...]


@value
class PartitionList:
    """Data of ``/admin/preferred_replica_election``: the partitions to elect for."""

    partitions: tuple[TopicPartition, ...]


@value
class ReassignPartitions:
    """Data of ``/admin/reassign_partitions``: the replicas that partitions are to have."""

    partitions: tuple[tuple[TopicPartition, tuple[int, ...]], ...]


@value
class ConfigEntries:
    """Data of ``/config/topics/T``, ``/config/brokers/N`` and ``/config/brokers/<default>``, and of
    quotas: see :func:`quota_path`."""

    entries: tuple[tuple[str, str], ...]


@value
class ConfigChange:
    """Data of ``/config/changes/config_change_N``: which topic or broker has new settings.

    Of new quotas the type is :data:`QUOTA` and the name the path of their znode.
    """

    resource_type: str
    resource_name: str


QUOTA = "quota"


@value
class AclEntries:
    """Data of ``/kafka-acl/<type>/<name>``: the entries of a resource, (type, name, pattern type).

    A child of :data:`ACL_CHANGES` names the resource alone.
    """

    resource: tuple[str, str, str]
    entries: tuple[AclBinding, ...]


@value
class ProducerIdBlock:
    """Data of ``/latest_producer_id_block``: the ids ``start`` to ``end``, both included."""

    broker: int
    start: int
    end: int


def broker_path(broker: int) -> str:
    """Return ``/brokers/ids/N``."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """Return ``/brokers/topics/T``."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return ``/brokers/topics/T/partitions``."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(tp: TopicPartition) -> str:
    """Return ``/brokers/topics/T/partitions/P``."""
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def state_path(tp: TopicPartition) -> str:
    """Return ``/brokers/topics/T/partitions/P/state``."""
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def config_path(topic: str) -> str:
    """Return ``/config/topics/T``."""
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: str) -> str:
    """Return ``/config/brokers/N``; an empty name stands for the default of all brokers."""
    return f"{BROKER_CONFIGS}/{broker or DEFAULT_NAME}"


def acl_root(pattern_type: str, resource_type: str) -> str:
    """Return the path below which the resources of one type have their entries."""
    return f"{ACL_ROOTS[pattern_type]}/{_ACL_TYPES[resource_type]}"


def acl_path(resource_type: str, name: str, pattern_type: str) -> str:
    """Return the path of a resource's entries (ZkAclStore.path)."""
    return f"{acl_root(pattern_type, resource_type)}/{name}"


def quota_path(entity: QuotaEntity) -> str:
    """Return ``/config/users/U``, ``/config/clients/C`` or ``/config/users/U/clients/C``."""
    names = dict(entity)
    path = "/config"
    if USER in names:
        path += f"/users/{_sanitized(names[USER])}"
    if CLIENT_ID in names:
        path += f"/{CLIENTS}/{_sanitized(names[CLIENT_ID])}"
    return path


def quota_entity_at(path: str) -> QuotaEntity:
    """Return the entity whose quotas stand at a path."""
    parts = path.removeprefix("/config/").split("/")
    kinds = {"users": USER, CLIENTS: CLIENT_ID}
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return quota_entity([(kinds[kind], _desanitized(name)) for kind, name in pairs])


def _sanitized(name: str | None) -> str:
    """Return a name as it stands in a path (Sanitizer.sanitize)."""
    return DEFAULT_NAME if name is None else quote(name, safe="").replace("~", "%7E")


def _desanitized(name: str) -> str | None:
    return None if name == DEFAULT_NAME else unquote(name)
