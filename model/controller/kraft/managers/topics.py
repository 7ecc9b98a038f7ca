"""Creates, grows and deletes topics as records (ReplicationControlManager).

What may be created, and where its replicas are placed, is decided in
:mod:`kafkasim.model.controller.common.topics`.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kafkasim.model.controller.common.topics import Charge, NewTopic, TopicPlanner, unlimited
from kafkasim.model.controller.kraft.managers.cluster import ClusterControlManager
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


class TopicControlManager:
    """Returns records and responses; changes nothing itself."""

    def __init__(
        self,
        image: MetadataImage,
        cluster: ClusterControlManager,
        config: BrokerConfig,
        rng: random.Random,
        internal_segment_bytes: bool,
    ) -> None:
        self.cluster = cluster
        self.planner = TopicPlanner(
            image, cluster.usable_brokers, config, rng, internal_segment_bytes
        )

    def create_topics(
        self, request: CreateTopicsRequest, charge: Charge = unlimited
    ) -> tuple[list[Any], CreateTopicsResponse]:
        """Return the records of all topics that can be created, and a result for each topic."""
        topics, results = self.planner.create_topics(request, charge)
        records: list[Any] = []
        for topic in topics:
            records.append(TopicRecord(topic.name, topic.topic_id))
            records += [ConfigRecord(topic.name, key, text) for key, text in topic.configs]
            records += self._partitions(topic)
        return records, CreateTopicsResponse(results)

    def create_partitions(
        self, request: CreatePartitionsRequest, charge: Charge = unlimited
    ) -> tuple[list[Any], CreatePartitionsResponse]:
        """Return the records of the partitions that can be added, and a result for each topic."""
        topics, results = self.planner.create_partitions(request, charge)
        records = [record for topic in topics for record in self._partitions(topic)]
        return records, CreatePartitionsResponse(Errors.NONE, results)

    def delete_topics(
        self, request: DeleteTopicsRequest, charge: Charge = unlimited
    ) -> tuple[list[Any], DeleteTopicsResponse]:
        """Return the records that remove the topics, and a result for each topic."""
        topic_ids, response = self.planner.delete_topics(request, charge)
        return [RemoveTopicRecord(topic_id) for topic_id in topic_ids], response

    def _partitions(self, topic: NewTopic) -> list[PartitionRecord]:
        return [
            PartitionRecord(
                topic.topic_id,
                each.number,
                each.replicas,
                each.isr,
                each.isr[0],
                directories=self.cluster.directories(each.replicas),
            )
            for each in topic.partitions
        ]
