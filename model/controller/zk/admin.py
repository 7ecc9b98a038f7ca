"""Operators' requests that write znodes: topics and settings (ZkAdminManager, ConfigAdminManager).

Topics are created, grown and deleted by writing znodes, which the controller watches. Settings are
written below /config and announced to all brokers below /config/changes.

Only the broker that is the controller serves these requests, on lane ``zk-admin``; in Kafka they
block a request handler. Checks and placement are those of the KRaft controller, against the
broker's metadata cache; ZooKeeper decides whether a topic exists. Left out: waiting for the leaders
of new topics (DelayedCreatePartitions).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.configs import config_problem
from kafkasim.model.controller.common.placement import UsableBroker
from kafkasim.model.controller.common.responses import failed
from kafkasim.model.controller.common.topics import TopicPlanner
from kafkasim.model.controller.zk.events import EventQueue, Steps
from kafkasim.model.controller.zk.store.zk_data import (
    CONFIG_CHANGES,
    DELETE_TOPICS,
    ConfigChange,
    ConfigEntries,
    ReplicaAssignment,
    TopicAssignment,
    broker_config_path,
    config_path,
    topic_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConfigChanged
from kafkasim.model.messages import (
    AlterableConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkasim.model.messages.clients.admin import TOPIC
from kafkasim.model.zookeeper.ops import Create, Exists, GetData, SetData, ZkError, ZkResult

if TYPE_CHECKING:
    import random

    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.controller.zk.controller import KafkaController

LANE = "zk-admin"
NONE, OK = Errors.NONE, ZkError.OK
Answer = Callable[[Any, int], None]
SERVED = (
    CreateTopicsRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)


class ZkAdminManager:
    """Serves CreateTopics, CreatePartitions, DeleteTopics and IncrementalAlterConfigs."""

    def __init__(
        self,
        controller: KafkaController,
        image: MetadataImage,
        config: BrokerConfig,
        rng: random.Random,
    ) -> None:
        self.controller = controller
        self.image = image
        self.topics = TopicPlanner(image, self._usable_brokers, config, rng)
        self.queue = EventQueue(controller.process, controller.zk, LANE)

    def _usable_brokers(self) -> list[UsableBroker]:
        """Return all brokers of the metadata cache: replicas may be placed on each."""
        return [UsableBroker(b.id, b.rack, False) for _, b in sorted(self.image.brokers.items())]

    def serve(self, request: Any, answer: Answer) -> None:
        """Serve a request that was sent or forwarded to this broker as the controller.

        ``answer(response, now)`` is called once, or never if the broker stops first.
        """
        controller = self.controller
        if isinstance(request, SERVED):

            def run() -> Steps:
                response = failed(request, Errors.NOT_CONTROLLER)
                try:
                    if controller.is_active:
                        response = yield from self._serve(request)
                finally:
                    answer(response, self.queue.now)

            self.queue.put(type(request).__name__, run)
        else:
            controller.requests.serve(request, answer)

    def _serve(self, request: Any) -> Steps:
        if isinstance(request, CreateTopicsRequest):
            return self._create(request)
        if isinstance(request, CreatePartitionsRequest):
            return self._create_partitions(request)
        if isinstance(request, DeleteTopicsRequest):
            return self._delete(request)
        return self._alter_configs(request)

    def _create(self, request: CreateTopicsRequest) -> Steps:
        """Write the settings and then the assignment of each topic
        (AdminZkClient.createTopicWithAssignment); return the response."""
        topics, planned = self.topics.create_topics(request)
        results = {name: (error, message) for name, error, message in planned}
        for topic in topics:
            settings = ConfigEntries(topic.configs)
            partitions = [
                (each.number, ReplicaAssignment(each.replicas)) for each in topic.partitions
            ]
            assignment = TopicAssignment(topic.topic_id, tuple(partitions))
            path = config_path(topic.name)
            (created,) = yield (Exists(topic_path(topic.name)),)
            if created.error is OK:
                created = ZkResult(ZkError.NODEEXISTS)
            else:
                (created,) = yield (Create(path, settings),)
                if created.error is ZkError.NODEEXISTS:
                    yield (SetData(path, settings),)
                (created,) = yield (Create(topic_path(topic.name), assignment),)
            if created.error is ZkError.NODEEXISTS:
                message = f"Topic '{topic.name}' already exists."
                results[topic.name] = (Errors.TOPIC_ALREADY_EXISTS, message)
            elif created.error is not OK:
                results[topic.name] = (Errors.UNKNOWN_SERVER_ERROR, created.error.name)
        return CreateTopicsResponse(tuple([(name, *outcome) for name, outcome in results.items()]))

    def _create_partitions(self, request: CreatePartitionsRequest) -> Steps:
        """Write the new partitions of each topic (createPartitions); return the response."""
        times = Counter([topic.topic for topic in request.topics])
        results: list[tuple[str, Errors, str]] = []
        for topic in {each.topic: each for each in request.topics}.values():
            if times[topic.topic] > 1:
                error, message = Errors.INVALID_REQUEST, "Duplicate topic in request."
            elif self.controller.context.deleting(topic.topic):
                error, message = Errors.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion."
            else:
                error, message = yield from self._grow(topic)
            results.append((topic.topic, error, message))
        return CreatePartitionsResponse(NONE, tuple(results))

    def _grow(self, topic: CreatePartitionsTopic) -> Steps:
        """Write one topic's new assignment; return the error and its message."""
        path = topic_path(topic.topic)
        (found,) = yield (GetData(path),)
        if found.error is not OK:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.topic}' does not exist."
        known = found.data.partitions
        if any(entry.being_reassigned for _, entry in known):
            message = f"A partition reassignment is in progress for the topic '{topic.topic}'."
            return Errors.REASSIGNMENT_IN_PROGRESS, message
        if topic.count < len(known):
            message = f"Topic currently has {len(known)} partitions, which is higher than the"
            return Errors.INVALID_PARTITIONS, f"{message} requested {topic.count}."
        if topic.count == len(known):
            return Errors.INVALID_PARTITIONS, f"Topic already has {len(known)} partitions."
        replicas = self.topics.replicas_of_new(topic, len(known), len(known[0][1].replicas))
        if not isinstance(replicas, list):
            return replicas.error, replicas.message
        more = [(len(known) + n, ReplicaAssignment(each)) for n, each in enumerate(replicas)]
        assignment = TopicAssignment(found.data.topic_id, (*known, *more))
        (written,) = yield (SetData(path, assignment),)
        if written.error is OK:
            return NONE, ""
        return Errors.UNKNOWN_SERVER_ERROR, written.error.name

    def _delete(self, request: DeleteTopicsRequest) -> Steps:
        """Name the topics under /admin/delete_topics; return the response."""
        _, response = self.topics.delete_topics(request)
        fine = [name for name, _, error, _ in response.results if error is NONE]
        known = yield tuple([Exists(topic_path(name)) for name in fine])
        gone = [name for name, found in zip(fine, known, strict=True) if found.error is not OK]
        yield tuple([Create(f"{DELETE_TOPICS}/{name}", ()) for name in fine if name not in gone])
        unknown = (Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist.")
        results = [
            (name, topic_id, *unknown) if name in gone else (name, topic_id, error, message)
            for name, topic_id, error, message in response.results
        ]
        return DeleteTopicsResponse(NONE, tuple(results))

    def _alter_configs(self, request: IncrementalAlterConfigsRequest) -> Steps:
        """Change settings, resource by resource (incrementalAlterConfigs); return the response."""
        results: list[tuple[str, str, Errors, str]] = []
        for resource in request.resources:
            kind, name = resource.resource_type, resource.resource_name
            if kind == TOPIC and name and name not in self.image.topic_names:
                error, message = Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist."
            else:
                error, message = config_problem(resource, self.image)
            if error is NONE:
                yield from self._write_settings(resource)
            results.append((resource.resource_type, resource.resource_name, error, message))
        return IncrementalAlterConfigsResponse(NONE, tuple(results))

    def _write_settings(self, resource: AlterableConfig) -> Steps:
        """Read, change and write a resource's settings, and announce the change.

        The write is not conditional: of two writers the last one wins.
        """
        kind, name = resource.resource_type, resource.resource_name
        path = config_path(name) if kind == TOPIC else broker_config_path(name)
        (found,) = yield (GetData(path),)
        entries = dict(found.data.entries) if found.error is OK else {}
        for key, text in resource.configs:
            if text is None:
                entries.pop(key, None)
            else:
                entries[key] = text
        settings = ConfigEntries(tuple(entries.items()))
        (written,) = yield (SetData(path, settings),)
        if written.error is ZkError.NONODE:
            (written,) = yield (Create(path, settings),)
        out = self.controller.process.out
        for key, text in resource.configs:
            out.append(ConfigChanged(written.zxid, f"{kind}:{name}", key, text))
        change = ConfigChange(kind, name)
        yield (Create(f"{CONFIG_CHANGES}/config_change_", change, sequential=True),)
