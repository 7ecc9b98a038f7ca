"""The admin client: Kafka's KafkaAdminClient, as far as clusters are built and operated with it.

A request goes to the least loaded node, which forwards it to the controller; what fails without an
answer, or as a whole with a retriable error, is tried again until default.api.timeout.ms (60 s).
What is refused of a topic, a partition or a resource is the answer: a retry after a lost answer may
find that its own first attempt has done the work. Calls that go to partitions' leaders are in
:mod:`kafkasim.model.client.admin.offsets` and :mod:`kafkasim.model.client.admin.records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.admin.offsets import ResetOffsets
from kafkasim.model.client.admin.records import DeleteRecords
from kafkasim.model.client.exceptions import KafkaTimeoutError
from kafkasim.model.client.net.connections import Connections, backoff_us
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.effects import Reply
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    AlterPartitionReassignmentsRequest,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    MetadataResponse,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ClientConfig
    from kafkasim.model.effects import Process

API_TIMEOUT_US = 60_000_000


class AdminCall:
    """One call of the application, retried until it has an answer."""

    def __init__(self, admin: KafkaAdmin, call: int, request: Any, now: int) -> None:
        self.admin = admin
        self.call = call
        self.request = request
        self.deadline = now + API_TIMEOUT_US
        self.attempts = 0
        self.key = ("admin", admin.name, call)

    def attempt(self, now: int) -> None:
        """Send the request, or try later."""
        self.attempts += 1
        channel = self.admin.connections.least_loaded(now)
        if channel is None:
            self.retry(now)
        else:
            channel.send(self.request, now, self.on_answer)

    def on_answer(self, answer: Any, now: int) -> None:
        """Finish with what is final; retry what is not."""
        result = self._result(answer)
        if result is None:
            self.retry(now)
        else:
            self.admin.process.out.append(Reply(self.call, result, None))

    def retry(self, now: int) -> None:
        """Try again after the backoff, unless the call's time is over."""
        process = self.admin.process
        at = now + backoff_us(self.admin.config, self.attempts, process.rng)
        if at >= self.deadline:
            name = type(self.request).__name__
            process.out.append(Reply(self.call, None, KafkaTimeoutError("TIMED_OUT", name)))
        else:
            process.timers.arm(self.key, at, "main", self.attempt)

    def _result(self, answer: Any) -> Any:
        if isinstance(answer, Failed):
            return None
        if isinstance(answer, MetadataResponse):
            for topic in answer.topics:
                if topic.error or any(p.leader < 0 for p in topic.partitions):
                    return None
            return answer
        if isinstance(answer, CreateTopicsResponse):
            return self._created(answer)
        return None if answer.error in RETRIABLE else answer

    def _created(self, answer: CreateTopicsResponse) -> Any:
        """Return the results; a topic that an earlier, unanswered attempt made counts as made."""
        results = []
        for topic, error, message in answer.results:
            if error in RETRIABLE:
                return None
            if error is Errors.TOPIC_ALREADY_EXISTS and self.attempts > 1:
                results.append((topic, Errors.NONE, message))
            else:
                results.append((topic, error, message))
        return tuple(results)


class KafkaAdmin:
    """One admin client of a client process.

    Each method takes the arguments of one request and replies its response; ``create_topics``
    replies ((topic, error, message), …), ``reset_offsets`` ((partition, offset, error), …).
    """

    def __init__(
        self,
        process: Process,
        name: str,
        config: ClientConfig,
        bootstrap: tuple[str, ...],
        rules: ClientRules,
    ) -> None:
        self.process = process
        self.name = name
        self.config = config
        self.connections = Connections(process, name, config, bootstrap, "admin")
        self.metadata = Metadata(self.connections, rules, auto_create=False)
        self.methods: dict[str, Callable[[int, tuple[Any, ...], int], None]] = {
            "create_topics": self.create_topics,
            "create_partitions": self._method(CreatePartitionsRequest),
            "delete_topics": self._method(DeleteTopicsRequest),
            "elect_leaders": self._method(ElectLeadersRequest),
            "alter_partition_reassignments": self._method(AlterPartitionReassignmentsRequest),
            "list_partition_reassignments": self._method(ListPartitionReassignmentsRequest),
            "incremental_alter_configs": self._method(IncrementalAlterConfigsRequest),
            "unregister_broker": self._method(UnregisterBrokerRequest),
            "add_raft_voter": self._method(AddRaftVoterRequest),
            "remove_raft_voter": self._method(RemoveRaftVoterRequest),
            "describe_quorum": self._method(DescribeQuorumRequest),
            "update_features": self._method(UpdateFeaturesRequest),
            "reset_offsets": self.reset_offsets,
            "delete_records": self.delete_records,
            "describe": self.describe,
            "close": self.close,
        }

    def _method(self, request: type) -> Callable[[int, tuple[Any, ...], int], None]:
        def method(call: int, args: tuple[Any, ...], now: int) -> None:
            AdminCall(self, call, request(*args), now).attempt(now)

        return method

    def create_topics(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Create (topics: tuple[CreatableTopic, …],): replies ((topic, error, message), …)."""
        topics: tuple[CreatableTopic, ...] = tuple(args[0])
        request = CreateTopicsRequest(topics, self.config.request_timeout_ms)
        AdminCall(self, call, request, now).attempt(now)

    def reset_offsets(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reset (group, topics, to): ``to`` is EARLIEST_TIMESTAMP, LATEST_TIMESTAMP or an offset."""
        group, topics, to = args
        ResetOffsets(self, call, group, tuple(topics), to, now).attempt(now)

    def delete_records(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Delete records below (((partition, offset; −1 for the high watermark), …),)."""
        offsets = {TopicPartition(*tp): offset for tp, offset in args[0]}
        DeleteRecords(self, call, offsets, now).attempt(now)

    def describe(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Describe (topics,): replies the MetadataResponse once all their leaders are known."""
        request = MetadataRequest(tuple(args[0]), allow_auto_topic_creation=False)
        AdminCall(self, call, request, now).attempt(now)

    def close(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Close the connections."""
        self.metadata.close()
        self.connections.close()
        self.process.out.append(Reply(call, None, None))
