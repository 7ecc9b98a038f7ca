"""ZkAdminManager: serves what operators ask of topics and settings.

They are served on lane ``zk-admin``; in Kafka they block a request handler. Only the broker that
is the controller serves requests about topics. Every broker reads and writes quotas of clients,
writes settings, and creates topics that its clients need. A request that creates partitions or
deletes topics is answered when this broker's metadata cache shows the result, and with
REQUEST_TIMED_OUT if that takes too long.

A request whose ZooKeeper session expires is answered with NOT_CONTROLLER, and clients send it
again. In Kafka a broker goes on with it in its next session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.mutation_quota import (
    ControllerMutationQuota,
    ControllerMutationQuotaManager,
)
from kafkasim.model.controller.common.topics import METADATA_TOPIC, Charge, unlimited
from kafkasim.model.controller.zk.admin import quotas
from kafkasim.model.controller.zk.admin.refusals import not_controller
from kafkasim.model.controller.zk.admin.settings import SettingsWriter
from kafkasim.model.controller.zk.admin.topics import Outcome, TopicWriter
from kafkasim.model.controller.zk.admin.waiting import TopicPurgatory
from kafkasim.model.controller.zk.events import EventQueue, Steps
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClientQuotasRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    import random

    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.configs import Problem
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.controller.zk.controller import KafkaController
    from kafkasim.model.messages.clients.admin import QuotaEntity

LANE = "zk-admin"
NONE = Errors.NONE
LATE = (Errors.REQUEST_TIMED_OUT, "")
ANYWHERE = (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    IncrementalAlterConfigsRequest,
)
"""The requests that every broker serves, not only the controller."""

Answer = Callable[[Any, int], None]
Client = tuple[str, str]
"""A client's user and client id."""


class ZkAdminManager:
    """Serves what operators ask of topics, settings and quotas of clients."""

    def __init__(
        self,
        controller: KafkaController,
        image: MetadataImage,
        config: BrokerConfig,
        rng: random.Random,
    ) -> None:
        self.controller = controller
        self.image = image
        self.topics = TopicWriter(image, config, rng)
        self.settings = SettingsWriter(controller.process.out, image)
        self.quotas = quotas.QuotaWriter(controller.process.out)
        self.purgatory = TopicPurgatory(controller.process.timers, image)
        self.queue = EventQueue(controller.process, controller.zk, LANE)
        self._mutations = ControllerMutationQuotaManager(config, lambda: image.client_quotas)
        self.charged: dict[type, Callable[[Any, Answer, Charge], Steps]] = {
            CreateTopicsRequest: self._create_topics,
            CreatePartitionsRequest: self._create_partitions,
            DeleteTopicsRequest: self._delete_topics,
        }
        self.serving: dict[type, Callable[[Any, Answer], Steps]] = {
            IncrementalAlterConfigsRequest: self._alter_configs,
            AlterClientQuotasRequest: self._alter_quotas,
            DescribeClientQuotasRequest: self._describe_quotas,
        }

    def serve(self, request: Any, client: Client | None, answer: Answer) -> None:
        """Serve a request, or refuse it because another broker is the controller.

        ``client`` is who sent it, as quotas name him. ``answer(response, now)`` is called once, or
        never if the broker stops first.
        """
        serve = self.serving.get(type(request))
        if type(request) in self.charged:
            self._put_charged(request, client, answer, anywhere=False)
        elif serve is not None:
            self._put(request, serve, answer, anywhere=isinstance(request, ANYWHERE))
        elif isinstance(request, ElectLeadersRequest):
            self.controller.requests.serve(request, partial(self._elected, request, answer))
        else:
            self.controller.requests.serve(request, answer)

    def create_anywhere(
        self, request: CreateTopicsRequest, client: Client | None, answer: Answer
    ) -> None:
        """Create topics, whether this broker is the controller or not (createTopicsInZk).

        ``client`` None: a coordinator's topic, which takes from no quota; in Kafka it takes from
        that of the client that looks for the coordinator, and is admitted all the same.
        """
        self._put_charged(request, client, answer, anywhere=True)

    def _put_charged(
        self, request: Any, client: Client | None, answer: Answer, *, anywhere: bool
    ) -> None:
        """Queue a request that takes partitions from its client's controller_mutation_rate; the
        answer says how long he must wait (sendResponseMaybeThrottleWithControllerQuota)."""
        serve = self.charged[type(request)]

        def charged(_request: Any, _answer: Answer) -> Steps:
            now, quota = self.queue.now, None
            if client is not None:
                quota = self._mutations.quota_for(*client, request.knows_quota, now)
            if quota is None:
                yield from serve(request, answer, unlimited)
            else:
                yield from serve(request, _throttling(quota, answer), quota.record)

        self._put(request, charged, answer, anywhere=anywhere)

    def _put(
        self,
        request: Any,
        serve: Callable[[Any, Answer], Steps],
        answer: Answer,
        *,
        anywhere: bool,
    ) -> None:
        """Queue a request; only the controller serves it unless any broker may (``anywhere``)."""

        def run() -> Steps:
            answered = False
            try:
                if anywhere or self.controller.is_active:
                    yield from serve(request, answer)
                    answered = True
            finally:
                if not answered:
                    answer(not_controller(request, self.image), self.queue.now)

        self.queue.put(type(request).__name__, run)

    def _elected(
        self, request: ElectLeadersRequest, answer: Answer, response: Any, now: int
    ) -> None:
        if response.error is Errors.NOT_CONTROLLER:
            response = not_controller(request, self.image)
        answer(response, now)

    def _create_topics(self, request: CreateTopicsRequest, answer: Answer, charge: Charge) -> Steps:
        """Create each topic, one after the other (KafkaApis.handleCreateTopicsRequest)."""
        times = Counter([topic.topic for topic in request.topics])
        outcomes: list[Outcome] = []
        for topic in request.topics:
            if topic.topic == METADATA_TOPIC:
                message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
                outcome: Outcome = (Errors.INVALID_REQUEST, message, 0)
            elif times[topic.topic] > 1:
                outcome = (Errors.INVALID_REQUEST, "Found multiple entries for this topic.", 0)
            else:
                outcome = yield from self.topics.create(topic, charge)
            outcomes.append(outcome)
        rows = [(topic.topic, outcome) for topic, outcome in zip(request.topics, outcomes)]
        self._answer_with_leaders(rows, request.timeout_ms, CreateTopicsResponse, answer)

    def _create_partitions(
        self, request: CreatePartitionsRequest, answer: Answer, charge: Charge
    ) -> Steps:
        """Grow each topic, one after the other (handleCreatePartitionsRequest)."""
        times = Counter([topic.topic for topic in request.topics])
        rows: list[tuple[str, Outcome]] = []
        for topic in {each.topic: each for each in request.topics}.values():
            outcome: Outcome
            if times[topic.topic] > 1:
                outcome = (Errors.INVALID_REQUEST, "Duplicate topic in request.", 0)
            elif self.controller.context.deleting(topic.topic):
                message = "The topic is queued for deletion."
                outcome = (Errors.INVALID_TOPIC_EXCEPTION, message, 0)
            else:
                outcome = yield from self.topics.grow(topic, charge)
            rows.append((topic.topic, outcome))
        self._answer_with_leaders(
            rows,
            request.timeout_ms,
            lambda results: CreatePartitionsResponse(NONE, results),
            answer,
        )

    def _answer_with_leaders(
        self,
        rows: list[tuple[str, Outcome]],
        timeout_ms: int,
        response: Callable[[tuple[tuple[str, Errors, str], ...]], Any],
        answer: Answer,
    ) -> None:
        """Answer when all partitions of the topics without an error have leaders."""
        wanted = {name: partitions for name, (error, _, partitions) in rows if error is NONE}
        leaderless = self.purgatory.leaderless

        def ready() -> bool:
            return not any(leaderless(name, wanted[name]) for name in wanted)

        def done(now: int) -> None:
            results = []
            for name, (error, message, partitions) in rows:
                late = error is NONE and (timeout_ms <= 0 or leaderless(name, partitions))
                results.append((name, *LATE) if late else (name, error, message))
            answer(response(tuple(results)), now)

        self.purgatory.wait(ready, timeout_ms, done, self.queue.now)

    def _delete_topics(self, request: DeleteTopicsRequest, answer: Answer, charge: Charge) -> Steps:
        """Mark topics for deletion; answer when they are gone (handleDeleteTopicsRequest).

        Of a topic that stands in several rows, one row gets the outcome.
        """
        unknown = (Errors.UNKNOWN_TOPIC_OR_PARTITION, "")
        rows: list[tuple[str, str, Errors, str]] = []
        doomed: dict[str, tuple[Errors, str]] = {}
        for name, topic_id in request.topics:
            topic = self.image.topics.get(topic_id)
            found = name or (topic.name if topic is not None else "")
            if name and topic_id:
                message = "Topic name and topic ID can not both be specified."
                rows.append((name, topic_id, Errors.INVALID_REQUEST, message))
            elif not found:
                rows.append(("", topic_id, Errors.UNKNOWN_TOPIC_ID, ""))
            elif not self.purgatory.exists(found):
                rows.append((found, topic_id, *unknown))
            else:
                rows.append((found, topic_id, NONE, ""))
                doomed[found] = (NONE, "")
        for name in doomed:
            error, message, _ = yield from self.topics.delete(name, charge)
            doomed[name] = (error, message)
        waiting = [name for name, (error, _) in doomed.items() if error is NONE]

        def ready() -> bool:
            return not any(self.purgatory.exists(name) for name in waiting)

        def done(now: int) -> None:
            left = dict(doomed)
            for name in waiting:
                if request.timeout_ms <= 0 or self.purgatory.exists(name):
                    left[name] = LATE
            results = []
            for name, given, error, message in rows:
                if error is NONE:
                    error, message = left.pop(name, (NONE, ""))
                results.append((name, given, error, message))
            answer(DeleteTopicsResponse(NONE, tuple(results)), now)

        self.purgatory.wait(ready, request.timeout_ms, done, self.queue.now)

    def _alter_configs(self, request: IncrementalAlterConfigsRequest, answer: Answer) -> Steps:
        """Change settings, resource by resource (incrementalAlterConfigs)."""
        results: list[tuple[str, str, Errors, str]] = []
        for resource in request.resources:
            error, message = yield from self.settings.alter(resource)
            results.append((resource.resource_type, resource.resource_name, error, message))
        answer(IncrementalAlterConfigsResponse(NONE, tuple(results)), self.queue.now)

    def _alter_quotas(self, request: AlterClientQuotasRequest, answer: Answer) -> Steps:
        """Set quotas, entity by entity; one that is named twice has its last outcome."""
        results: dict[QuotaEntity, Problem] = {}
        for each in request.entries:
            results[each.entity] = yield from self.quotas.alter(each.entity, each.changes)
        rows = tuple([(entity, *problem) for entity, problem in results.items()])
        answer(AlterClientQuotasResponse(NONE, rows), self.queue.now)

    def _describe_quotas(self, request: DescribeClientQuotasRequest, answer: Answer) -> Steps:
        response = yield from quotas.describe(request)
        answer(response, self.queue.now)


def _throttling(quota: ControllerMutationQuota, answer: Answer) -> Answer:
    """Return an answer that says how long the client must wait because of its quota."""

    def answer_with_wait(response: Any, now: int) -> None:
        wait_ms = quota.throttle_time_ms(now // 1000)
        answer(replace(response, throttle_time_ms=wait_ms) if wait_ms else response, now)

    return answer_with_wait
