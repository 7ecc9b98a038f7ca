"""Calls about groups: each goes to the group's coordinator, and listing to every broker.

Models CoordinatorStrategy with the handlers DescribeClassicGroups, DeleteConsumerGroups,
DeleteConsumerGroupOffsets and AlterConsumerGroupOffsets, and KafkaAdminClient.listGroups. After a
retriable error the coordinator is looked up again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.admin.calls import AdminCall, AdminCalls
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from kafkasim.model.records import TopicPartition

Result = tuple[Errors, Any]
"""The error of one group, and what the call replies of it."""


class GroupCall:
    """One request to the coordinator of one group, which is looked up first."""

    def __init__(
        self,
        calls: AdminCalls,
        call: int,
        group: str,
        request: Any,
        result: Callable[[Any], Result],
        now: int,
    ) -> None:
        """``result(response)`` returns the error of the group, and what to reply."""
        self._connections = calls.connections
        self._call = AdminCall(calls, call, f"{type(request).__name__} of {group}", now)
        self._group = group
        self._request = request
        self._result = result

    def attempt(self, now: int) -> None:
        """Look the coordinator up, or try later if no node can be connected to."""
        channel = self._call.least_loaded(self.attempt, now)
        if channel is not None:
            channel.send(FindCoordinatorRequest(self._group), now, self._on_coordinator)

    def _on_coordinator(self, response: Any, now: int) -> None:
        if not isinstance(response, FindCoordinatorResponse) or response.error in RETRIABLE:
            self._call.retry(self.attempt, now)
        elif response.error:
            self._call.reply((response.error, None))
        else:
            channel = self._connections.channel(response.node_id, response.address)
            channel.send(self._request, now, self._on_response)

    def _on_response(self, response: Any, now: int) -> None:
        if isinstance(response, Failed):
            self._call.retry(self.attempt, now)
            return
        error, reply = self._result(response)
        if error in RETRIABLE:
            self._call.retry(self.attempt, now)
        else:
            self._call.reply((error, reply))


def describe_group(calls: AdminCalls, call: int, group: str, now: int) -> GroupCall:
    """Return the call that replies (error, DescribedGroup)."""

    def result(response: Any) -> Result:
        return response.groups[0].error, response.groups[0]

    return GroupCall(calls, call, group, DescribeGroupsRequest((group,)), result, now)


def delete_group(calls: AdminCalls, call: int, group: str, now: int) -> GroupCall:
    """Return the call that replies (error, None)."""

    def result(response: Any) -> Result:
        return response.results[0][1], None

    return GroupCall(calls, call, group, DeleteGroupsRequest((group,)), result, now)


def delete_offsets(
    calls: AdminCalls, call: int, group: str, partitions: tuple[TopicPartition, ...], now: int
) -> GroupCall:
    """Return the call that replies (error, {partition: error})."""

    def result(response: Any) -> Result:
        return response.error, dict(response.results)

    request = OffsetDeleteRequest(group, partitions)
    return GroupCall(calls, call, group, request, result, now)


def list_offsets(
    calls: AdminCalls,
    call: int,
    group: str,
    partitions: tuple[TopicPartition, ...] | None,
    now: int,
) -> GroupCall:
    """Return the call that replies (error, (OffsetFetchPartitionResponse, …))."""

    def result(response: Any) -> Result:
        return response.error, response.partitions

    request = OffsetFetchRequest(group, partitions, require_stable=False)
    return GroupCall(calls, call, group, request, result, now)


def alter_offsets(
    calls: AdminCalls, call: int, group: str, offsets: Mapping[TopicPartition, int], now: int
) -> GroupCall:
    """Return the call that commits offsets and replies (error, {partition: error}).

    The coordinator takes them only of a group without members (alterConsumerGroupOffsets).
    """

    def result(response: Any) -> Result:
        found = dict(response.results)
        return next((each for each in found.values() if each), Errors.NONE), found

    commit = tuple([(tp, offset, -1, "") for tp, offset in offsets.items()])
    request = OffsetCommitRequest(group, -1, "", None, commit)
    return GroupCall(calls, call, group, request, result, now)


class ListGroups:
    """Asks every broker for the groups that it coordinates; replies them by their ids."""

    def __init__(
        self,
        calls: AdminCalls,
        call: int,
        request: ListGroupsRequest,
        now: int,
        only: tuple[int, ...] | None = None,
    ) -> None:
        """``only`` are the brokers to ask, if not all."""
        self._only = only
        self._connections = calls.connections
        self._call = AdminCall(calls, call, "listGroups", now)
        self._request = request
        self._brokers: dict[int, str] = {}  # that have not answered yet
        self._found: dict[str, ListedGroup] = {}

    def attempt(self, now: int) -> None:
        """Find the brokers out, then ask one after the other."""
        channel = self._call.least_loaded(self.attempt, now)
        if channel is not None:
            channel.send(MetadataRequest((), False), now, self._on_brokers)

    def _on_brokers(self, response: Any, now: int) -> None:
        if not isinstance(response, MetadataResponse):
            self._call.retry(self.attempt, now)
            return
        known = {broker.id: broker.address for broker in response.brokers}
        if any(each not in known for each in self._only or ()):
            self._call.retry(self.attempt, now)  # a broker that is away may come back
            return
        self._brokers = known if self._only is None else {each: known[each] for each in self._only}
        self._ask(now)

    def _ask(self, now: int) -> None:
        if not self._brokers:
            self._call.reply(tuple([self._found[name] for name in sorted(self._found)]))
            return
        node_id, address = next(iter(self._brokers.items()))
        channel = self._connections.channel(node_id, address)
        channel.send(self._request, now, self._on_groups)

    def _on_groups(self, response: Any, now: int) -> None:
        if not isinstance(response, ListGroupsResponse) or response.error:
            self._call.retry(self.attempt, now)  # a broker that still loads, or is gone
            return
        self._found.update({group.group_id: group for group in response.groups})
        del self._brokers[next(iter(self._brokers))]
        self._ask(now)
