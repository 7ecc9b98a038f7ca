"""AIOKafkaAdminClient over the simulated admin client: aiokafka's names, Java's behaviour.

A call asks the controller, a leader or a coordinator again until default.api.timeout.ms is over,
where aiokafka's client fails at the first error that may pass. What is about one topic, partition
or group is in the result or is raised, as aiokafka has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kafkasim.model.config import ClientConfig
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CLUSTER_ID,
    CreatableTopic,
    CreatePartitionsTopic,
    DescribedGroup,
    DescribedGroupMember,
    MetadataResponse,
    MetadataTopic,
    user_data_of,
)
from kafkasim.model.records import COORDINATOR_TOPICS, TopicPartition
from kafkasim.scenarios.applications.consuming.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
    topics_of,
)
from kafkasim.scenarios.applications.handle import Handle, Partial
from kafkasim.scenarios.applications.session import session
from kafkasim.scenarios.applications.settings import config_of, properties
from kafkasim.scenarios.applications.stand_ins import where
from kafkasim.scenarios.applications.types.admin import (
    DeleteTopicsResponse,
    DescribeGroupsResponse,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
    TopicErrorsResponse,
)
from kafkasim.scenarios.applications.types.errors import for_code
from kafkasim.scenarios.applications.types.structs import OffsetAndMetadata
from kafkasim.sim.apps.refusals import NotSimulated

PORT = 9092
NO_OPERATIONS = -(2**31)  # of authorized_operations: they were not asked for


class AIOKafkaAdminClient(Partial):
    """An admin client of the running application; settings are keyword arguments.

    Raises:
        ValueError: an unknown setting, or a value that is not allowed.
    """

    left_out: ClassVar[Mapping[str, str]] = {
        "describe_configs": "the scenario has the settings",
        "alter_configs": "no broker serves AlterConfigs; the operation alter-config sets a setting",
    }

    def __init__(self, **settings: Any) -> None:
        place = session()
        self._created = place.created
        what = "AIOKafkaAdminClient"
        found = {"client.id": place.node, **properties(place, ClientConfig, settings, what)}
        self._config = config_of(ClientConfig, found, settings, what)
        self._client = Handle(place, "admin", self._config)

    async def start(self) -> None:
        """Open the client."""
        if not self._client.name:
            await self._client.open()

    async def close(self) -> None:
        """Wait for the results of the calls under way, and close."""
        if self._client.name:
            await self._client.ask("close")
            self._client.name = ""

    # Topics.

    async def create_topics(
        self,
        new_topics: Sequence[NewTopic],
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> TopicErrorsResponse:
        """Create topics; the response has the error of each.

        Raises:
            ValueError: replicas are chosen for partitions that are not numbered from 0.
        """
        _refuse_if(validate_only, "create_topics(validate_only=True)")
        topics = tuple([_creatable(each) for each in new_topics])
        found = await self._client.ask("create_topics", topics, timeout_ms)
        self._created.update(dict.fromkeys([topic for topic, error, _ in found if not error]))
        return TopicErrorsResponse(0, _with_codes(found))

    async def delete_topics(
        self, topics: Sequence[str], timeout_ms: int | None = None
    ) -> DeleteTopicsResponse:
        """Delete topics; the response has the error of each."""
        asked = tuple([(topic, "") for topic in topics])
        found = await self._client.ask("delete_topics", asked, self._timeout_ms(timeout_ms))
        _raise_if(found.error, "Could not delete topics")
        errors = [(topic, int(error)) for topic, _, error, _ in found.results]
        return DeleteTopicsResponse(0, errors)

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions],
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> TopicErrorsResponse:
        """Give topics more partitions.

        Raises:
            BrokerResponseError: the error of the first topic that has one.
        """
        _refuse_if(validate_only, "create_partitions(validate_only=True)")
        asked = tuple(
            [
                CreatePartitionsTopic(
                    topic, new.total_count, tuple(map(tuple, new.new_assignments or ()))
                )
                for topic, new in topic_partitions.items()
            ]
        )
        found = await self._client.ask("create_partitions", asked, self._timeout_ms(timeout_ms))
        _raise_if(found.error, "Could not create partitions")
        for topic, error, message in found.results:
            _raise_if(error, f"Could not create partitions for {topic}: {message or None}")
        return TopicErrorsResponse(0, _with_codes(found.results))

    async def list_topics(self) -> list[str]:
        """Return the names of all topics."""
        return [each.topic for each in (await self._metadata(None)).topics]

    async def describe_topics(self, topics: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return what a broker knows of topics, by default of all.

        As with aiokafka the broker creates a topic that it does not know, if
        auto.create.topics.enable allows that.
        """
        return [_described_topic(each) for each in (await self._metadata(topics)).topics]

    async def describe_cluster(self) -> dict[str, Any]:
        """Return the brokers, the id of the cluster and the controller."""
        found = await self._metadata(None)
        brokers = [
            {"node_id": each.id, "host": each.address, "port": PORT, "rack": each.rack}
            for each in found.brokers
        ]
        return {
            "throttle_time_ms": 0, "brokers": brokers, "cluster_id": CLUSTER_ID,
            "controller_id": found.controller_id,
        }  # fmt: skip

    async def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, RecordsToDelete],
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, int]:
        """Delete records; return where each partition begins now.

        Raises:
            BrokerResponseError: the error of the first partition that has one.
            KafkaTimeoutError: a partition has no leader, or is unknown, for a minute.
        """
        asked = tuple([(tp, each.before_offset) for tp, each in records_to_delete.items()])
        found: dict[TopicPartition, int] = {}
        for tp, low_watermark, error in await self._client.ask("delete_records", asked):
            _raise_if(error)
            found[TopicPartition(*tp)] = low_watermark
        return found

    # Groups.

    async def list_consumer_groups(
        self, broker_ids: Sequence[int] | None = None
    ) -> list[tuple[str, str]]:
        """Return (group, protocol type) of the groups that brokers coordinate, by name."""
        only = None if broker_ids is None else tuple(broker_ids)
        found = await self._client.ask("list_groups", (), (), only)
        return [(each.group_id, each.protocol_type) for each in found]

    async def find_coordinator(self, group_id: str, coordinator_type: int = 0) -> int:
        """Return the broker that coordinates a group, or with type 1 a transactional id."""
        found = await self._client.ask("find_coordinator", group_id, coordinator_type)
        _raise_if(found.error, f"Unable to get coordinator id for {group_id}")
        return int(found.node_id)

    async def describe_consumer_groups(
        self,
        group_ids: Sequence[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[DescribeGroupsResponse]:
        """Return a response for each coordinator, with its groups.

        A group of the consumer protocol is Dead for this request, as one that is not there.
        """
        _refuse_if(include_authorized_operations, "include_authorized_operations")
        found: dict[int, list[tuple[Any, ...]]] = {}
        for group_id in group_ids:
            coordinator = await self.find_coordinator(group_id)
            asked = coordinator if group_coordinator_id is None else group_coordinator_id
            error, group = await self._client.ask("describe_group", group_id)
            if asked != coordinator:
                error, group = Errors.NOT_COORDINATOR, None
            known = group or DescribedGroup(error, group_id)
            found.setdefault(asked, []).append(_described_group(error, known))
        return [DescribeGroupsResponse(0, groups) for groups in found.values()]

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Sequence[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what a group has committed, by default of all partitions; −1 for no offset.

        Raises:
            NotCoordinatorForGroupError: ``group_coordinator_id`` is not the coordinator.
            BrokerResponseError: the group or a partition has an error.
        """
        coordinator = await self.find_coordinator(group_id)
        if group_coordinator_id not in (None, coordinator):
            _raise_if(Errors.NOT_COORDINATOR, f"Unable to get offset info of {group_id}")
        asked = None if partitions is None else tuple([TopicPartition(*tp) for tp in partitions])
        error, parts = await self._client.ask("list_group_offsets", group_id, asked)
        _raise_if(error, f"Unable to get offset info of {group_id}")
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for part in parts:
            topic, number = part.tp
            _raise_if(part.error, f"Unable to get offset info for {topic} and {number}")
            found[part.tp] = OffsetAndMetadata(part.offset, part.metadata)
        return found

    async def _metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        asked = None if topics is None else tuple(topics)
        found: MetadataResponse = await self._client.ask("metadata", asked, True)
        return found

    def _timeout_ms(self, asked: int | None) -> int:
        return asked or self._config.request_timeout_ms


def _refuse_if(asked: bool, what: str) -> None:
    if asked:
        raise NotSimulated(f"AIOKafkaAdminClient.{what} ({where()}): it is not simulated")


def _raise_if(error: Errors, *told: str) -> None:
    """Raise the class of an error code, unless it is NONE."""
    if error:
        raised = for_code(int(error))(*told)
        raised.code = error.name
        raise raised


def _with_codes(
    results: Sequence[tuple[str, Errors, str]],
) -> list[tuple[str, int, str | None]]:
    return [(topic, int(error), message or None) for topic, error, message in results]


def _creatable(new: NewTopic) -> CreatableTopic:
    chosen = dict(new.replica_assignments)
    if sorted(chosen) != list(range(len(chosen))):
        raise ValueError(f"{new.name}: replica_assignments has the partitions {sorted(chosen)}")
    return CreatableTopic(
        new.name,
        new.num_partitions,
        new.replication_factor,
        tuple([tuple(chosen[number]) for number in sorted(chosen)]),
        tuple([(key, str(value)) for key, value in new.topic_configs.items()]),
    )


def _described_topic(topic: MetadataTopic) -> dict[str, Any]:
    partitions = [
        {
            "error_code": int(each.error), "partition": each.partition, "leader": each.leader,
            "replicas": list(each.replicas), "isr": list(each.isr),
            "offline_replicas": list(each.offline_replicas),
        }
        for each in topic.partitions
    ]  # fmt: skip
    internal = topic.topic in COORDINATOR_TOPICS
    return {
        "error_code": int(topic.error), "topic": topic.topic, "is_internal": internal,
        "partitions": partitions,
    }  # fmt: skip


def _described_group(error: Errors, group: DescribedGroup) -> tuple[Any, ...]:
    """Return a group as version 3 of DescribeGroups has it.

    A group that is not there is Dead, without an error before version 6 (KIP-1043).
    """
    if error is Errors.GROUP_ID_NOT_FOUND:
        error = Errors.NONE
    members = [_described_member(each) for each in group.members]
    return (
        int(error), group.group_id, group.state, group.protocol_type, group.protocol, members,
        NO_OPERATIONS,
    )  # fmt: skip


def _described_member(member: DescribedGroupMember) -> tuple[Any, ...]:
    told = assigned = b""
    if member.subscription is not None:
        data = member.subscription.user_data
        data = data if isinstance(data, bytes) else b""
        topics = list(member.subscription.topics)
        told = ConsumerProtocolMemberMetadata(0, topics, data).encode()
        given, own = topics_of(member.assignment), user_data_of(member.assignment)
        assigned = ConsumerProtocolMemberAssignment(0, given, own).encode()
    return member.member_id, member.client_id, "", told, assigned
