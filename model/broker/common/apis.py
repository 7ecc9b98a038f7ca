"""KafkaApis: one handler per request type.

Requests about records go to the ReplicaManager, requests of groups to the GroupCoordinator, and
those of transactions to the TransactionCoordinator. Metadata, ApiVersions and FindCoordinator are
answered here; what operators ask for goes where :class:`ControllerAccess` says.

What a client may do is checked before (``authorization/``). Left out: the versions in ApiVersions,
and the requests of parts that are not modelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkasim.model.broker.common.config_helper import described as described_configs
from kafkasim.model.broker.common.coordinators.registry import SHARE
from kafkasim.model.broker.common.forwarding import AutoTopicCreation
from kafkasim.model.broker.common.transactions.apis import TransactionApis
from kafkasim.model.broker.common.transactions.offset_commits import TxnOffsetCommits
from kafkasim.model.channel import Failed
from kafkasim.model.controller.common.client_quotas import MUTATION_RATE, described
from kafkasim.model.controller.common.configs import preprocess
from kafkasim.model.controller.common.responses import (
    OPERATOR_REQUESTS,
    api_versions,
    envelope,
    failed,
)
from kafkasim.model.controller.common.topics import name_problem
from kafkasim.model.effects import Peer, Process, Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.facts import Throttled
from kafkasim.model.group.coordinator import GROUP_REQUESTS
from kafkasim.model.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    FetchRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    ProduceRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
    request_name,
)
from kafkasim.model.replication.requests.transactions.describe import active_producers
from kafkasim.model.share.records import is_coordinator_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkasim.model.broker.common.controller_link import ControllerAccess
    from kafkasim.model.broker.common.coordinators.registry import CoordinatorTopics
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import (
        MetadataImage,
        PartitionRegistration,
        TopicImage,
    )
    from kafkasim.model.group.coordinator import GroupCoordinator
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.transaction.coordinator import TransactionCoordinator

NONE = Errors.NONE
Handler = Callable[[Request, int], None]


class KafkaApis:
    """Serves requests from the parts of one broker; ``image`` is the metadata cache."""

    def __init__(
        self,
        process: Process,
        incarnation: Incarnation,
        config: BrokerConfig,
        image: MetadataImage,
        replicas: ReplicaManager,
        coordinator: GroupCoordinator,
        coordinators: CoordinatorTopics,
        transactions: TransactionCoordinator,
        controller: ControllerAccess,
    ) -> None:
        self._process = process
        self.out = out = process.out
        self.incarnation = incarnation
        self.config, self.image = config, image
        self.replicas = replicas
        self.coordinator, self.coordinators = coordinator, coordinators
        self.controller = controller
        internal = {name: entry.topic for name, entry in coordinators.by_name.items()}
        self.auto_topics = AutoTopicCreation(config, controller.topics, internal, out)
        self._handlers: dict[type, Handler] = {
            ProduceRequest: replicas.producing.serve,
            FetchRequest: replicas.fetching.serve,
            ListOffsetsRequest: self.on_list_offsets,
            DeleteRecordsRequest: replicas.deletion.serve,
            WriteTxnMarkersRequest: replicas.markers.serve,
            DescribeProducersRequest: self.on_describe_producers,
            OffsetsForLeaderEpochRequest: self.on_offsets_for_leader_epoch,
            MetadataRequest: self.on_metadata,
            FindCoordinatorRequest: self.on_find_coordinator,
            ApiVersionsRequest: self.on_api_versions,
            CreateTopicsRequest: self.on_create_topics,
            **dict.fromkeys(OPERATOR_REQUESTS, self.on_operator_request),
            DescribeClientQuotasRequest: self.on_describe_client_quotas,
            DescribeConfigsRequest: self.on_describe_configs,
            DescribeAclsRequest: self.on_describe_acls,
            IncrementalAlterConfigsRequest: self.on_alter_configs,
            **dict.fromkeys(GROUP_REQUESTS, coordinator.on_request),
            OffsetCommitRequest: self.on_offset_commit,
            OffsetDeleteRequest: self.on_offset_delete,
            TxnOffsetCommitRequest: TxnOffsetCommits(
                out, coordinator, replicas.verification, self._knows, self.respond
            ).serve,
            **TransactionApis(
                transactions, self._knows, coordinator.partition_for, self.respond
            ).handlers,
        }

    def add_handlers(self, handlers: Mapping[type, Handler]) -> None:
        """Serve more request types (share groups), or some in another way (ZooKeeper mode)."""
        self._handlers.update(handlers)

    def handle(self, item: Request, now: int) -> None:
        """Serve a request; its response may come later (KafkaApis.handle)."""
        self._handlers[type(item.message)](item, now)

    def respond(self, item: Request, message: Any, throttle_ms: int = 0) -> None:
        """Respond to a request."""
        self.out.append(Respond(item.connection, item.correlation, message, throttle_ms))

    # ------------------------------------------------------------------------------- partitions

    def on_list_offsets(self, item: Request, now: int) -> None:
        """Respond to ListOffsets of a client or a follower."""
        replicas = self.replicas
        if replicas.locks.held and replicas.locks.put_aside(item):
            return
        request: ListOffsetsRequest = item.message
        answers = replicas.offsets.list_offsets(request)
        self.respond(item, ListOffsetsResponse(answers))

    def on_offsets_for_leader_epoch(self, item: Request, now: int) -> None:
        """Respond with the end offsets of leader epochs."""
        replicas = self.replicas
        if replicas.locks.held and replicas.locks.put_aside(item):
            return
        request: OffsetsForLeaderEpochRequest = item.message
        answer = replicas.offsets.epoch_end_offset
        answers = tuple([answer(asked) for asked in request.partitions])
        self.respond(item, OffsetsForLeaderEpochResponse(answers))

    def on_describe_producers(self, item: Request, now: int) -> None:
        """Respond with the active producers of partitions that this broker hosts (KIP-664)."""
        found: list[DescribeProducersPartition] = []
        for tp in item.message.partitions:
            if name_problem(tp.topic) is not None:
                error = Errors.INVALID_TOPIC_EXCEPTION
            elif self.image.topic_by_name(tp.topic) is None:
                error = Errors.UNKNOWN_TOPIC_OR_PARTITION
            else:
                found.append(active_producers(self.replicas.hosted, tp))
                continue
            found.append(DescribeProducersPartition(tp, error, ()))
        self.respond(item, DescribeProducersResponse(tuple(found)))

    # --------------------------------------------------------------------------------- metadata

    def on_metadata(self, item: Request, now: int) -> None:
        """Respond from the metadata cache.

        A missing topic is created if both the client and auto.create.topics.enable allow it.
        """
        request: MetadataRequest = item.message
        image = self.image
        topics: list[MetadataTopic] = []
        if request.topics is None:
            topics = [self._topic(topic) for topic in image.topics.values()]
        else:
            for name in dict.fromkeys(request.topics):
                topic = image.topic_by_name(name)
                if topic is not None:
                    topics.append(self._topic(topic))
                    continue
                if request.allow_auto_topic_creation and self.config.auto_create_topics_enable:
                    self.auto_topics.create(name, now, self._peer_of(item))
                error = Errors.UNKNOWN_TOPIC_OR_PARTITION
                if name_problem(name) is not None:
                    error = Errors.INVALID_TOPIC_EXCEPTION
                topics.append(MetadataTopic(name, "", error, ()))
        brokers = tuple(
            [
                MetadataBroker(broker.id, broker.address, broker.rack)
                for broker in image.brokers.values()
                if not broker.fenced
            ]
        )
        self.respond(item, MetadataResponse(brokers, self.controller.named(), tuple(topics)))

    def _topic(self, topic: TopicImage) -> MetadataTopic:
        partitions = tuple(
            [self._partition(number, entry) for number, entry in sorted(topic.partitions.items())]
        )
        return MetadataTopic(topic.name, topic.topic_id, NONE, partitions)

    def _partition(self, number: int, entry: PartitionRegistration) -> MetadataPartition:
        leader_alive = self._alive(entry.leader)
        return MetadataPartition(
            number,
            NONE if leader_alive else Errors.LEADER_NOT_AVAILABLE,
            entry.leader if leader_alive else -1,
            entry.leader_epoch,
            entry.replicas,
            entry.isr,
            tuple([replica for replica in entry.replicas if not self._alive(replica)]),
        )

    def _alive(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def on_api_versions(self, item: Request, now: int) -> None:
        """Respond with the finalized features (KIP-584)."""
        self.respond(item, api_versions(self.image, self.controller.kraft_version()))

    def on_find_coordinator(self, item: Request, now: int) -> None:
        """Respond with the leader of the partition that holds the group or other key.

        The coordinator's topic is created when the first client asks.
        """
        request: FindCoordinatorRequest = item.message
        unavailable = FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE, -1, "")
        kind = self.coordinators.by_key_type.get(request.key_type)
        valid = request.key_type != SHARE or is_coordinator_key(request.key)
        if kind is None or not valid:
            error = Errors.INVALID_REQUEST
            if kind is None:
                error = self.coordinators.not_served(request.key_type)
            self.respond(item, FindCoordinatorResponse(error, -1, ""))
            return
        topic = self.image.topic_by_name(kind.topic.topic)
        if topic is None:
            self.auto_topics.create(kind.topic.topic, now)
            self.respond(item, unavailable)
            return
        entry = topic.partitions.get(kind.coordinator.partition_for(request.key))
        if entry is None or not self._alive(entry.leader):
            self.respond(item, unavailable)
            return
        leader = self.image.brokers[entry.leader]
        self.respond(item, FindCoordinatorResponse(NONE, leader.id, leader.address))

    def on_offset_commit(self, item: Request, now: int) -> None:
        """Refuse the partitions that the metadata cache does not know, before any other check; the
        coordinator serves the rest (handleOffsetCommitRequest)."""
        request: OffsetCommitRequest = item.message
        unknown = [offset for offset in request.offsets if not self._knows(offset[0])]
        if not unknown:
            self.coordinator.on_request(item, now)
            return
        refused = tuple([(offset[0], Errors.UNKNOWN_TOPIC_OR_PARTITION) for offset in unknown])
        if len(unknown) == len(request.offsets):
            self.out.append(
                Respond(item.connection, item.correlation, OffsetCommitResponse(refused))
            )
            return
        known = [offset for offset in request.offsets if offset not in unknown]

        def merge(answer: OffsetCommitResponse) -> OffsetCommitResponse:
            return OffsetCommitResponse((*refused, *answer.results))

        served = replace(request, offsets=tuple(known))
        self.coordinator.on_known_partitions(item, served, merge, now)

    def on_offset_delete(self, item: Request, now: int) -> None:
        """Refuse unknown partitions; the coordinator serves the rest (handleOffsetDeleteRequest).

        Also if none is left, the coordinator checks the group: its error is that of the request.
        """
        request: OffsetDeleteRequest = item.message
        known = tuple([tp for tp in request.partitions if self._knows(tp)])
        refused = tuple(
            [
                (tp, Errors.UNKNOWN_TOPIC_OR_PARTITION)
                for tp in request.partitions
                if tp not in known
            ]
        )

        def merge(answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
            if answer.error:
                return answer
            return OffsetDeleteResponse(NONE, (*refused, *answer.results))

        served = replace(request, partitions=known)
        self.coordinator.on_known_partitions(item, served, merge, now)

    def _knows(self, tp: TopicPartition) -> bool:
        topic = self.image.topic_by_name(tp.topic)
        return topic is not None and tp.partition in topic.partitions

    def on_describe_client_quotas(self, item: Request, now: int) -> None:
        """Respond with quotas of the metadata; in ZooKeeper mode they are read from znodes."""
        self.respond(item, described(item.message, self.image.client_quotas))

    def on_describe_configs(self, item: Request, now: int) -> None:
        """Respond with the settings of each resource (ConfigHelper)."""
        place = self.config, self.image, self.incarnation.broker_id
        found = tuple([described_configs(each, *place) for each in item.message.resources])
        self.respond(item, DescribeConfigsResponse(found))

    def on_describe_acls(self, item: Request, now: int) -> None:
        """Respond that there is no authorizer; with one it answers (authorization/gate.py)."""
        self.respond(item, DescribeAclsResponse(Errors.SECURITY_DISABLED, ()))

    # ------------------------------------------------------------------------ for the controller

    def on_create_topics(self, item: Request, now: int) -> None:
        """Have topics created; each topic has its own error."""
        request: CreateTopicsRequest = item.message
        error = Errors.REQUEST_TIMED_OUT
        late = CreateTopicsResponse(tuple([(t.topic, error, "") for t in request.topics]))
        self._forward(item, late, now)

    def on_alter_configs(self, item: Request, now: int) -> None:
        """Refuse what this broker can judge, and have the rest judged
        (handleIncrementalAlterConfigsRequest)."""
        resources = item.message.resources
        refused = preprocess(
            resources,
            self.incarnation.broker_id,
            self.image,
            self.config,
            self.replicas.logs.rules.bounds_log_segment_bytes(),
        )
        remaining = [each for place, each in enumerate(resources) if place not in refused]

        def reassemble(answer: Any, _at: int) -> None:
            """Answer in the order of the request (reassembleIncrementalResponse)."""
            late = isinstance(answer, Failed)
            error = Errors.REQUEST_TIMED_OUT if late else answer.error
            answered = iter(() if late else answer.results)
            results = tuple(
                [
                    (each.resource_type, each.resource_name, *refused[place])
                    if place in refused
                    else next(answered)
                    for place, each in enumerate(resources)
                    if error is NONE
                ]
            )
            self.respond(item, IncrementalAlterConfigsResponse(error, results))

        if remaining:
            message = IncrementalAlterConfigsRequest(tuple(remaining))
            self.controller.requests.send(envelope(message, self._peer_of(item)), now, reassemble)
        else:
            reassemble(IncrementalAlterConfigsResponse(NONE, ()), now)

    def on_operator_request(self, item: Request, now: int) -> None:
        """Have an operator's request served."""
        self._forward(item, failed(item.message, Errors.REQUEST_TIMED_OUT), now)

    def _forward(self, item: Request, late: Any, now: int) -> None:
        """Have a request served (maybeForwardToController); respond with ``late`` if there is no
        answer in time.

        The controller knows the client's controller_mutation_rate: if it says how long the client
        must wait, the connection stays muted for that time (sendForwardedResponse).
        """
        image = self.image

        def done(answer: Any, _at: int) -> None:
            if isinstance(answer, Failed):
                answer = late
            throttle_ms = getattr(answer, "throttle_time_ms", 0)
            if throttle_ms:
                peer, api, offset = self._peer_of(item), request_name(item.message), image.offset
                self.out.append(
                    Throttled(
                        peer.client_id, api, throttle_ms, peer.user, MUTATION_RATE, None, offset
                    )
                )
            self.respond(item, answer, throttle_ms)

        self.controller.requests.send(envelope(item.message, self._peer_of(item)), now, done)

    def _peer_of(self, item: Request) -> Peer:
        return self._process.peer_of(item.connection)
