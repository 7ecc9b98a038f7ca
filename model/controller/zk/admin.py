"""ZkAdminManager: topics are created and deleted by writing znodes; the controller's watches see it.

Only the active controller serves these requests, on a thread of its own (lane ``zk-admin``; in Kafka
it is the request handler's). Checks and placement are those of the KRaft controller, on the
broker's metadata cache; that a topic exists is what ZooKeeper says. Left out: waiting for the
leaders of new topics (DelayedCreatePartitions), settings of existing topics and of brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from model.controller.placement import UsableBroker
from model.controller.ports import failed
from model.controller.records import ConfigRecord, PartitionRecord, TopicRecord
from model.controller.topics import TopicControlManager
from model.controller.zk.events import Event, EventQueue, Steps
from model.controller.zk.registries import (
    DELETE_TOPICS,
    ReplicaAssignment,
    TopicAssignment,
    TopicSettings,
    config_path,
    topic_path,
)
from model.errors import Errors
from model.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from model.zookeeper.ops import Create, SetData, ZkError

if TYPE_CHECKING:
    import random

    from model.config import BrokerConfig
    from model.controller.image import MetadataImage
    from model.controller.zk.controller import KafkaController

LANE = "zk-admin"
NONE, OK = Errors.NONE, ZkError.OK
Answer = Callable[[Any, int], None]


class _LiveBrokers:
    """The brokers that replicas may be placed on, as TopicControlManager asks for them."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image

    def usable_brokers(self) -> list[UsableBroker]:
        """Return all brokers of the metadata cache."""
        return [UsableBroker(b.id, b.rack, False) for _, b in sorted(self.image.brokers.items())]


class ZkAdminManager:
    """Serves CreateTopics and DeleteTopics."""

    def __init__(
        self,
        controller: KafkaController,
        image: MetadataImage,
        config: BrokerConfig,
        rng: random.Random,
    ) -> None:
        self.controller = controller
        self.image = image
        self.topics = TopicControlManager(image, _LiveBrokers(image), config, rng)  # type: ignore[arg-type]
        self.queue = EventQueue(controller.process, controller.zk, LANE)

    def serve(self, request: Any, answer: Answer) -> None:
        """Serve a request that was sent or forwarded to this broker as the controller."""
        controller = self.controller
        if isinstance(request, CreateTopicsRequest | DeleteTopicsRequest):

            def run(_: int) -> Steps:
                response = failed(request, Errors.NOT_CONTROLLER)
                try:
                    if controller.is_active:
                        response = yield from self._serve(request)
                finally:
                    answer(response, self.queue.now)

            self.queue.put(Event(type(request).__name__, run))
        else:
            controller.requests.serve(request, answer)

    def _serve(self, request: CreateTopicsRequest | DeleteTopicsRequest) -> Steps:
        if isinstance(request, CreateTopicsRequest):
            return self._create(request)
        return self._delete(request)

    def _create(self, request: CreateTopicsRequest) -> Steps:
        """Write settings, then the assignment, of each topic (AdminZkClient.createTopic…)."""
        records, response = self.topics.create_topics(request)
        topics = [record for record in records if isinstance(record, TopicRecord)]
        results = {name: (error, message) for name, error, message in response.results}
        for topic in topics:
            settings = TopicSettings(
                tuple(
                    [
                        (record.name, record.value)
                        for record in records
                        if isinstance(record, ConfigRecord)
                        and record.topic == topic.name
                        and record.value is not None
                    ]
                )
            )
            partitions = [
                (record.partition, ReplicaAssignment(record.replicas))
                for record in records
                if isinstance(record, PartitionRecord) and record.topic_id == topic.topic_id
            ]
            assignment = TopicAssignment(topic.topic_id, tuple(partitions))
            path = config_path(topic.name)
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

    def _delete(self, request: DeleteTopicsRequest) -> Steps:
        """Name the topics under /admin/delete_topics."""
        _, response = self.topics.delete_topics(request)
        fine = [name for name, _, error, _ in response.results if error is NONE]
        yield tuple([Create(f"{DELETE_TOPICS}/{name}", ()) for name in fine])
        return DeleteTopicsResponse(NONE, response.results)
