"""Creates, grows and deletes topics by writing znodes (ZkAdminManager, AdminZkClient).

The checks and their order are those of ZooKeeper mode, which are not KRaft's: a manual assignment
may name brokers that do not exist, topics of one request may collide with each other, and a
request may have as many partitions as the znode of the topic holds. Placement is KRaft's.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kafkasim.model.controller.common.placement import UsableBroker, place
from kafkasim.model.controller.common.topics import (
    Charge,
    Refused,
    config_problem,
    name_problem,
    unified,
)
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.store.zk_data import (
    DELETE_TOPICS,
    TOPICS,
    ConfigEntries,
    ReplicaAssignment,
    TopicAssignment,
    config_path,
    topic_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import CreatableTopic, CreatePartitionsTopic
from kafkasim.model.values import random_uuid
from kafkasim.model.zookeeper.ops import (
    Create,
    Exists,
    GetChildren,
    GetData,
    SetData,
    ZkError,
    ZkResult,
)

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import MetadataImage

OK = ZkError.OK
MAX_BYTES = 0xFFFFF  # of a request to ZooKeeper (jute.maxbuffer)
Assignments = list[tuple[int, ...]]
Outcome = tuple[Errors, str, int]
"""An error, its message, and how many partitions the topic has now if there is none."""


class TopicWriter:
    """Checks what operators ask of topics against the metadata cache ``image`` and ZooKeeper."""

    def __init__(self, image: MetadataImage, config: BrokerConfig, rng: random.Random) -> None:
        self._image = image
        self._config = config
        self._rng = rng

    # ------------------------------------------------------------------------------------ create

    def create(self, topic: CreatableTopic, charge: Charge) -> Steps:
        """Create a topic; return the outcome (ZkAdminManager.createTopics).

        ``charge`` is asked last for its partitions, as in :meth:`grow`.
        """
        if topic.topic in self._image.topic_names:
            return _exists(topic.topic)
        assigned = self._assignments(topic)
        if isinstance(assigned, Refused):
            return assigned.error, assigned.message, 0
        if (problem := name_problem(topic.topic)) is not None:
            return Errors.INVALID_TOPIC_EXCEPTION, problem, 0
        marked, known = yield (
            Exists(f"{DELETE_TOPICS}/{topic.topic}"),
            Exists(topic_path(topic.topic)),
        )
        if OK in (marked.error, known.error):
            return _exists(topic.topic)
        if "." in topic.topic or "_" in topic.topic:
            (every,) = yield (GetChildren(TOPICS),)
            colliding = [name for name in every.children if unified(name) == unified(topic.topic)]
            if colliding:
                message = f"Topic '{topic.topic}' collides with existing topics: {colliding}"
                return Errors.INVALID_TOPIC_EXCEPTION, message, 0
        if (wrong := _problem(topic, assigned)) is not None:
            return wrong.error, wrong.message, 0
        if (refused := charge(len(assigned))) is not None:
            return refused.error, refused.message, 0
        written = yield from self._write(topic, assigned)
        if written.error is ZkError.NODEEXISTS:
            return _exists(topic.topic)
        if written.error is not OK:
            return Errors.UNKNOWN_SERVER_ERROR, written.error.name, 0
        return Errors.NONE, "", len(assigned)

    def _assignments(self, topic: CreatableTopic) -> Assignments | Refused:
        """Return the replicas of each partition: the operator's, or those of a placement."""
        partitions, factor = topic.num_partitions, topic.replication_factor
        if topic.assignments:
            if (partitions, factor) == (-1, -1):
                return list(topic.assignments)
            message = "Both numPartitions or replicationFactor and replicasAssignments were set."
            return Refused(Errors.INVALID_REQUEST, message)
        partitions = self._config.num_partitions if partitions == -1 else partitions
        factor = self._config.default_replication_factor if factor == -1 else factor
        return self._place(partitions, factor)

    def _place(self, partitions: int, factor: int) -> Assignments | Refused:
        """Place new replicas (AdminUtils.assignReplicasToBrokers)."""
        brokers = [
            UsableBroker(b.id, b.rack, False) for _, b in sorted(self._image.brokers.items())
        ]
        if partitions <= 0:
            message = "Number of partitions must be larger than 0."
            return Refused(Errors.INVALID_PARTITIONS, message)
        if factor <= 0:
            message = "Replication factor must be larger than 0."
            return Refused(Errors.INVALID_REPLICATION_FACTOR, message)
        if factor > len(brokers):
            message = f"Replication factor: {factor} larger than available brokers: {len(brokers)}."
            return Refused(Errors.INVALID_REPLICATION_FACTOR, message)
        if partitions * len('"0":[],' + "1," * factor) > MAX_BYTES:
            # ZooKeeper closes the connection, and Kafka sends such a znode again for ever.
            message = f"{partitions} partitions do not fit in a znode."
            return Refused(Errors.UNKNOWN_SERVER_ERROR, message)
        return place(self._rng, partitions, factor, brokers)

    def _write(self, topic: CreatableTopic, assigned: Assignments) -> Steps:
        """Write the settings and then the assignment (createTopicWithAssignment)."""
        settings, path = ConfigEntries(topic.configs), config_path(topic.topic)
        (created,) = yield (Create(path, settings),)
        if created.error is ZkError.NODEEXISTS:
            yield (SetData(path, settings),)
        partitions = [(number, ReplicaAssignment(each)) for number, each in enumerate(assigned)]
        assignment = TopicAssignment(random_uuid(self._rng), tuple(partitions))
        written: ZkResult
        (written,) = yield (Create(topic_path(topic.topic), assignment),)
        return written

    # -------------------------------------------------------------------------------------- grow

    def grow(self, topic: CreatePartitionsTopic, charge: Charge) -> Steps:
        """Add partitions to a topic; return the outcome (ZkAdminManager.createPartitions)."""
        if not topic.topic:  # ZooKeeper refuses the path
            return Errors.UNKNOWN_SERVER_ERROR, "Path must not end with / character", 0
        path = topic_path(topic.topic)
        (found,) = yield (GetData(path),)
        if found.error is not OK:
            message = f"The topic '{topic.topic}' does not exist."
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, message, 0
        known = found.data.partitions
        if any(entry.being_reassigned for _, entry in known):
            message = f"A partition reassignment is in progress for the topic '{topic.topic}'."
            return Errors.REASSIGNMENT_IN_PROGRESS, message, 0
        if topic.count < len(known):
            message = f"Topic currently has {len(known)} partitions, which is higher than the"
            return Errors.INVALID_PARTITIONS, f"{message} requested {topic.count}.", 0
        if topic.count == len(known):
            return Errors.INVALID_PARTITIONS, f"Topic already has {len(known)} partitions.", 0
        replicas = self._new_replicas(topic, len(known), len(known[0][1].replicas))
        if isinstance(replicas, Refused):
            return replicas.error, replicas.message, 0
        if (refused := charge(topic.count - len(known))) is not None:
            return refused.error, refused.message, 0
        more = [(len(known) + n, ReplicaAssignment(each)) for n, each in enumerate(replicas)]
        assignment = TopicAssignment(found.data.topic_id, (*known, *more))
        (written,) = yield (SetData(path, assignment),)
        if written.error is OK:
            return Errors.NONE, "", topic.count
        return Errors.UNKNOWN_SERVER_ERROR, written.error.name, 0

    def _new_replicas(
        self, topic: CreatePartitionsTopic, count: int, factor: int
    ) -> Assignments | Refused:
        """Return the replicas of the partitions to be added to a topic that has ``count``."""
        assigned = list(topic.assignments)
        if not assigned:
            return self._place(topic.count - count, factor)
        unknown = [r for replicas in assigned for r in replicas if r not in self._image.brokers]
        message = ""
        if unknown:
            message = f"Unknown broker(s) in replica assignment: {unknown}."
        elif len(assigned) != topic.count - count:
            message = (
                f"Increasing the number of partitions by {topic.count - count} but"
                f" {len(assigned)} assignments provided."
            )
        elif not all(assigned):
            message = "Cannot have replication factor of 0."
        elif any(_has_duplicates(replicas) for replicas in assigned):
            message = "Duplicate brokers not allowed in replica assignment."
        elif any(len(replicas) != factor for replicas in assigned):
            message = "Inconsistent replication factor between partitions."
        return Refused(Errors.INVALID_REPLICA_ASSIGNMENT, message) if message else assigned

    # ------------------------------------------------------------------------------------ delete

    def delete(self, topic: str, charge: Charge) -> Steps:
        """Name a topic under /admin/delete_topics; return the outcome. One that is named there
        already is not an error (ZkAdminManager.deleteTopics).

        ``charge`` is asked first for the partitions that the metadata cache knows.
        """
        cached = self._image.topic_by_name(topic)
        if (refused := charge(0 if cached is None else len(cached.partitions))) is not None:
            return refused.error, refused.message, 0
        (known,) = yield (Exists(topic_path(topic)),)
        if known.error is not OK:
            message = f"Topic `{topic}` to delete does not exist"
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, message, 0
        yield (Create(f"{DELETE_TOPICS}/{topic}", ()),)
        return Errors.NONE, "", 0


def _problem(topic: CreatableTopic, assigned: Assignments) -> Refused | None:
    """Return what is wrong with replicas or settings (AdminZkClient.validateTopicCreate).

    Partitions without any replica are accepted, though no broker can ever lead them.
    """
    if any(len(replicas) != len(assigned[0]) for replicas in assigned):
        message = "All partitions should have the same number of replicas"
        return Refused(Errors.INVALID_REPLICA_ASSIGNMENT, message)
    if any(_has_duplicates(replicas) for replicas in assigned):
        message = f"Duplicate replica assignment found: {assigned}"
        return Refused(Errors.INVALID_REPLICA_ASSIGNMENT, message)
    problem = config_problem(topic, internal_segment_bytes=False)
    return None if problem is None else Refused(Errors.INVALID_CONFIG, problem)


def _has_duplicates(replicas: tuple[int, ...]) -> bool:
    return len(dict.fromkeys(replicas)) < len(replicas)


def _exists(topic: str) -> Outcome:
    return Errors.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.", 0
