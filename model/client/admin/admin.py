"""The admin client: the part of Kafka's KafkaAdminClient that builds and operates clusters.

The client asks for metadata before its first request. A request goes to the least loaded node, or
to the broker that Metadata names as the controller (``nodes.py``). In KRaft mode that is a live
broker, which forwards what the controller must serve.

A request that gets no response is sent again, and so is one that fails as a whole with a retriable
error, until default.api.timeout.ms (60 s) is over. An error about one topic, partition or resource
is part of the result. A retry may therefore report an error because its first attempt, whose
response was lost, has already done the work; CreateTopics alone hides that.

Calls about transactions are in ``transactions/``.

Not modelled: describing consumer groups (KIP-848), a broker's own configuration and log
directories; timeouts of single calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.admin.alter_configs import AlterConfigs
from kafkasim.model.client.admin.calls import AdminCalls, SingleRequest
from kafkasim.model.client.admin.delete_records import DeleteRecords
from kafkasim.model.client.admin.groups import (
    ListGroups,
    alter_offsets,
    delete_group,
    delete_offsets,
    describe_group,
    list_offsets,
)
from kafkasim.model.client.admin.nodes import Nodes
from kafkasim.model.client.admin.reset_offsets import ResetOffsets
from kafkasim.model.client.admin.topics import TopicsRequest
from kafkasim.model.client.admin.transactions.calls import TransactionCalls
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.effects import Reply
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    CreatableTopic,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ClientConfig
    from kafkasim.model.effects import Process

Method = Callable[[int, tuple[Any, ...], int], None]
"""Called with (call, its arguments, now)."""


class KafkaAdmin:
    """One admin client of a client process.

    A method takes the arguments of one request and replies the response, unless its docstring says
    otherwise.
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
        self.connections = Connections(process, name, config, bootstrap, "admin", rules)
        self.metadata = Metadata(self.connections, rules, auto_create=False, backs_off=False)
        self.calls = AdminCalls(self.connections, Nodes(self.metadata))
        self._closed = False
        calls: dict[str, Method] = {
            "create_topics": self.create_topics,
            "create_topics_at_once": self.create_topics_at_once,
            "create_partitions": self._method(CreatePartitionsRequest, TopicsRequest),
            "delete_topics": self._method(DeleteTopicsRequest, TopicsRequest),
            "elect_leaders": self._method(ElectLeadersRequest),
            "alter_partition_reassignments": self._method(AlterPartitionReassignmentsRequest),
            "list_partition_reassignments": self._method(ListPartitionReassignmentsRequest),
            "incremental_alter_configs": self.alter_configs,
            "alter_client_quotas": self._method(AlterClientQuotasRequest),
            "create_acls": self._method(CreateAclsRequest),
            "delete_acls": self._method(DeleteAclsRequest),
            "describe_acls": self._method(DescribeAclsRequest),
            "describe_configs": self._method(DescribeConfigsRequest),  # no broker's own
            "describe_client_quotas": self._method(DescribeClientQuotasRequest),
            "unregister_broker": self._method(UnregisterBrokerRequest),
            "add_raft_voter": self._method(AddRaftVoterRequest),
            "remove_raft_voter": self._method(RemoveRaftVoterRequest),
            "describe_quorum": self._method(DescribeQuorumRequest),
            "update_features": self._method(UpdateFeaturesRequest),
            "reset_offsets": self.reset_offsets,
            "delete_records": self.delete_records,
            "describe": self.describe,
            "metadata": self.ask_metadata,
            "find_coordinator": self._method(FindCoordinatorRequest),
            "list_group_offsets": self.list_group_offsets,
            "describe_group": self.describe_group,
            "list_groups": self.list_groups,
            "delete_group": self.delete_group,
            "delete_offsets": self.delete_offsets,
            "alter_offsets": self.alter_offsets,
            **self._transaction_calls(),
        }
        self.methods = {name: self._unless_closed(method) for name, method in calls.items()}
        self.methods["close"] = self.close

    def _transaction_calls(self) -> dict[str, Method]:
        requests = TransactionCalls(self.calls)
        return {
            "describe_transactions": requests.describe_transactions,
            "list_transactions": requests.list_transactions,
            "fence_producers": requests.fence_producers,
            "describe_producers": requests.describe_producers,
            "abort_transaction": requests.abort_transaction,
            "find_hanging_transactions": requests.find_hanging_transactions,
        }

    def _method(self, request: type, kind: type[SingleRequest] = SingleRequest) -> Method:
        def method(call: int, args: tuple[Any, ...], now: int) -> None:
            kind(self.calls, call, request(*args), now).attempt(now)

        return method

    def create_topics(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Create (topics: tuple[CreatableTopic, …],); reply ((topic, error, message), …).

        A second argument is the request's timeout in ms, in place of request.timeout.ms.
        """
        TopicsRequest(self.calls, call, self._creation(*args), now).attempt(now)

    def create_topics_at_once(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Do the same, but ask a bootstrap server without metadata, as no AdminClient does.

        Only KRaft brokers forward that. A simulation prepares its cluster so: an AdminClient has to
        wait until the broker that it asks has learned that brokers are unfenced.
        """
        TopicsRequest(self.calls, call, self._creation(args[0]), now, at_once=True).attempt(now)

    def _creation(
        self, topics: Iterable[CreatableTopic], timeout_ms: int | None = None
    ) -> CreateTopicsRequest:
        return CreateTopicsRequest(tuple(topics), timeout_ms or self.config.request_timeout_ms)

    def alter_configs(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Change settings of (resources: tuple[AlterableConfig, …],); reply the response."""
        AlterConfigs(self.calls, call, tuple(args[0]), now).attempt(now)

    def reset_offsets(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reset the offsets of (group, topics, to); reply ((partition, offset, error), …).

        ``to`` is EARLIEST_TIMESTAMP, LATEST_TIMESTAMP or an offset. A fourth argument is a time in
        ms since 1970 that replaces it.
        """
        group, topics, to, *since = args
        ResetOffsets(self.calls, call, group, tuple(topics), to, now, *since).attempt(now)

    def delete_records(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Delete records, given (((partition, offset), …),); reply ((partition, low, error), …).

        Records below the offset are deleted; −1 stands for the high watermark. ``low`` is the
        partition's new log start offset.
        """
        offsets = {TopicPartition(*tp): offset for tp, offset in args[0]}
        DeleteRecords(self.calls, call, offsets, now).attempt(now)

    def describe(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Describe (topics,); reply the MetadataResponse once every partition has a leader."""
        request = MetadataRequest(tuple(args[0]), allow_auto_topic_creation=False)
        SingleRequest(self.calls, call, request, now).attempt(now)

    def ask_metadata(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Ask for (topics, or None for all; whether to create them); reply the MetadataResponse."""
        SingleRequest(self.calls, call, MetadataRequest(*args), now, as_it_is=True).attempt(now)

    def list_group_offsets(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Ask for (group, partitions, or None for all); reply (error, the partitions' answers)."""
        group, partitions = args
        list_offsets(self.calls, call, group, partitions, now).attempt(now)

    def describe_group(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Describe a classic (group,); reply (error, DescribedGroup)."""
        describe_group(self.calls, call, args[0], now).attempt(now)

    def list_groups(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """List the groups of (states, types), both () for all; reply (ListedGroup, …).

        A third argument are the ids of the brokers to ask, in place of all.
        """
        ListGroups(self.calls, call, ListGroupsRequest(*args[:2]), now, *args[2:]).attempt(now)

    def delete_group(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Delete an empty (group,) and its offsets; reply (error, None)."""
        delete_group(self.calls, call, args[0], now).attempt(now)

    def delete_offsets(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Delete offsets of (group, partitions); reply (error, {partition: error})."""
        partitions = tuple([TopicPartition(*tp) for tp in args[1]])
        delete_offsets(self.calls, call, args[0], partitions, now).attempt(now)

    def alter_offsets(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Commit (group, {partition: offset}); reply (error, {partition: error})."""
        group, offsets = args
        alter_offsets(self.calls, call, group, offsets, now).attempt(now)

    def close(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Wait for the results of all calls under way, then close the connections and reply."""
        self.shut(now, lambda: self.process.out.append(Reply(call, None, None)))

    def shut(self, _now: int, done: Callable[[], None]) -> None:
        """Close, then call ``done()`` (KafkaAdminClient.close; AdminClientRunnable.run).

        New calls are refused. Each call under way ends by default.api.timeout.ms.
        """
        self._closed = True

        def idle() -> None:
            self.metadata.close()
            self.connections.close()
            done()

        self.calls.when_idle(idle)

    def _unless_closed(self, method: Method) -> Method:
        """Return the method that refuses a call if the client is closed or closing."""

        def refuse_or_call(call: int, args: tuple[Any, ...], now: int) -> None:
            if self._closed:
                error = KafkaError("CLOSED", "Cannot accept new calls when AdminClient is closing.")
                self.process.out.append(Reply(call, None, error))
            else:
                method(call, args, now)

        return refuse_or_call
