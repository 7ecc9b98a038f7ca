"""What operators ask of groups: DescribeGroups, ListGroups, DeleteGroups, OffsetDelete.

Models the methods of these names in GroupCoordinatorService and GroupCoordinatorShard. Only an
empty group can be deleted. Offsets can be deleted of topics that no member subscribes to. Groups
are described as they are, while Kafka describes them as of the last committed record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.errors import Errors
from kafkasim.model.facts import OffsetsDeleted
from kafkasim.model.group.classic.group import CONSUMER, ClassicGroup, ClassicGroupState
from kafkasim.model.group.classic.membership import ClassicMembership
from kafkasim.model.group.modern.heartbeat import ConsumerGroupHeartbeats
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup, ConsumerGroupState
from kafkasim.model.group.offsets import OffsetMetadataManager
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.share.groups import ShareGroups
from kafkasim.model.group.share.log.state import ShareGroup
from kafkasim.model.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from kafkasim.model.records import TopicPartition

DEAD, STABLE = ClassicGroupState.DEAD, ClassicGroupState.STABLE
EMPTY = (ClassicGroupState.EMPTY, ConsumerGroupState.EMPTY)
CLASSIC, SHARE = "classic", "share"  # Group.GroupType
DELETED = "deleted"  # why a group is dead, as facts say it

AnyGroup = ClassicGroup | ConsumerGroup
Find = Callable[[str], GroupShard | Errors]
"""The active shard of a group id, or why there is none."""


class GroupDeletion:
    """Deletes groups and offsets, and writes the facts about it to ``out``."""

    def __init__(
        self,
        out: list[Any],
        offsets: OffsetMetadataManager,
        membership: ClassicMembership,
        consumer_groups: ConsumerGroupHeartbeats,
    ) -> None:
        self._out = out
        self._offsets = offsets
        self._membership = membership
        self._consumer_groups = consumer_groups
        self._cleanup = offsets.cleanup

    def drop_offsets(
        self, shard: GroupShard, group_id: str, gone: list[TopicPartition], now: int
    ) -> Errors:
        """Append tombstones of offsets; on an error nothing has changed."""
        error = self._offsets.drop_offsets(shard, group_id, gone, now)
        if error is Errors.NONE:
            self._record(shard, group_id, gone)
        return error

    def drop_group(self, shard: GroupShard, group: AnyGroup, now: int) -> Errors:
        """Append the tombstones of an empty group; on an error nothing has changed."""
        if isinstance(group, ClassicGroup):
            return self._membership.delete(shard, group, DELETED, now)
        deleted = self._consumer_groups.delete_if_empty(shard, group, now)
        return Errors.NONE if deleted else Errors.COORDINATOR_NOT_AVAILABLE

    def clean(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        gone: list[TopicPartition],
        whole: bool,
        now: int,
    ) -> None:
        """Remove offsets as the Scala coordinator does; ``whole``: the group, too."""
        if whole:
            self._cleanup.end(group, DELETED, now)
        self._cleanup.clean(shard, group, gone, DELETED, now)
        self._record(shard, group.group_id, gone)

    def _record(self, shard: GroupShard, group_id: str, gone: list[TopicPartition]) -> None:
        epoch, end = shard.context.epoch, shard.context.last_written
        facts = [OffsetsDeleted(group_id, tp.topic, tp.partition, epoch, end) for tp in gone]
        self._out.extend(facts)


class GroupAdministration:
    """Serves operators' requests about the groups of one broker."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        find: Find,
        deletion: GroupDeletion,
        share_groups: ShareGroups,
        new_coordinator: bool,
    ) -> None:
        self._runtime = runtime
        self._find = find
        self._deletion = deletion
        self._share_groups = share_groups
        self._new_coordinator = new_coordinator  # not the Scala coordinator of ZooKeeper mode

    # Reading.

    def on_describe(self, parked: Parked, request: DescribeGroupsRequest) -> None:
        """Describe each group, or say why not."""
        groups = tuple([self._describe(group_id) for group_id in request.group_ids])
        self._runtime.respond(parked, DescribeGroupsResponse(groups))

    def _describe(self, group_id: str) -> DescribedGroup:
        shard = self._find(group_id)
        if isinstance(shard, Errors):
            return DescribedGroup(shard, group_id)
        group = shard.groups.get(group_id)
        if group is None:  # also a consumer group; an error since version 6 (KIP-1043)
            error = Errors.GROUP_ID_NOT_FOUND if self._new_coordinator else Errors.NONE
            return DescribedGroup(error, group_id, DEAD.value)
        stable = group.state is STABLE
        members = tuple(
            [
                DescribedGroupMember(
                    m.member_id,
                    m.instance_id,
                    m.client_id,
                    m.subscription(group.protocol) if stable else None,
                    m.assignment if stable or self._new_coordinator else (),
                )
                for m in group.members.values()
            ]
        )
        protocol = group.protocol or "" if stable else ""
        kind = group.protocol_type or ""
        return DescribedGroup(Errors.NONE, group_id, group.state.value, kind, protocol, members)

    def on_list(self, shards: list[GroupShard], parked: Parked, request: ListGroupsRequest) -> None:
        """List the groups of all shards; COORDINATOR_LOAD_IN_PROGRESS if one is not loaded."""
        if not all(shard.context.is_active for shard in shards):
            error = Errors.COORDINATOR_LOAD_IN_PROGRESS
            self._runtime.respond(parked, ListGroupsResponse(error, ()))
            return
        states = [state.lower() for state in request.states]
        if self._new_coordinator:
            states = [state.strip() for state in states]
        types = [each.strip().lower() for each in request.types]
        groups: list[AnyGroup | ShareGroup] = []
        for shard in shards:
            groups += [*shard.groups.values(), *shard.consumer_groups.values()]
            groups += shard.share_groups.values()
        listed = [_listed(group) for group in groups]
        chosen = [
            group
            for group in listed
            if (not states or group.state.lower() in states)
            and (not types or group.group_type in types)
        ]
        self._runtime.respond(parked, ListGroupsResponse(Errors.NONE, tuple(chosen)))

    # Deleting.

    def on_delete(self, parked: Parked, request: DeleteGroupsRequest, now: int) -> None:
        """Delete empty groups with their offsets; answer once that is committed.

        Of share groups the states of their share partitions go first; where that fails, the group
        stays. The Scala coordinator answers at once.
        """

        def then(errors: dict[str, Errors], at: int) -> None:
            self._delete_all(parked, request, errors, at)

        self._share_groups.delete_states(request.group_ids, then, now)

    def _delete_all(
        self, parked: Parked, request: DeleteGroupsRequest, errors: dict[str, Errors], now: int
    ) -> None:
        results = {group_id: error for group_id, error in errors.items() if error}
        written: dict[int, list[str]] = {}  # partition -> its groups
        for group_id in dict.fromkeys(request.group_ids):
            if group_id in results:
                continue
            shard = self._find(group_id)
            if isinstance(shard, Errors):
                results[group_id] = shard
            else:
                results[group_id] = self._delete(shard, group_id, now)
                if self._new_coordinator:
                    written.setdefault(shard.context.partition, []).append(group_id)
        waiting = dict.fromkeys(written)

        def on_written(partition: int, error: Errors, _now: int) -> None:
            del waiting[partition]
            if error:
                results.update(dict.fromkeys(written[partition], client_error(error)))
            if not waiting:
                self._runtime.respond(parked, DeleteGroupsResponse(tuple(results.items())))

        if not written:
            self._runtime.respond(parked, DeleteGroupsResponse(tuple(results.items())))
        for partition, group_ids in written.items():
            shard = self._find(group_ids[0])
            assert not isinstance(shard, Errors), (partition, shard)
            self._runtime.defer(shard.context, on_written, partition, now)

    def _delete(self, shard: GroupShard, group_id: str, now: int) -> Errors:
        shared = shard.share_groups.get(group_id)
        if shared is not None:
            if shared.members:
                return Errors.NON_EMPTY_GROUP
            error = self._share_groups.delete_if_empty(shard, group_id, now)
            return client_error(error) if error else error
        group = _group(shard, group_id)
        if group is None or group.state is DEAD:
            return Errors.GROUP_ID_NOT_FOUND
        if group.members or group.state not in EMPTY:
            return Errors.NON_EMPTY_GROUP
        known = [*shard.stored(group_id), *shard.pending.partitions(group_id)]
        gone = list(dict.fromkeys(known))
        if isinstance(group, ClassicGroup) and not self._new_coordinator:
            self._deletion.clean(shard, group, gone, True, now)
            return Errors.NONE
        error = self._deletion.drop_offsets(shard, group_id, gone, now)
        if not error:
            error = self._deletion.drop_group(shard, group, now)
        return client_error(error) if error else error

    def on_delete_offsets(
        self, shard: GroupShard, parked: Parked, request: OffsetDeleteRequest, now: int
    ) -> None:
        """Delete offsets of topics that no member subscribes to; answer once that is committed.

        The Scala coordinator answers at once.
        """
        group_id = request.group_id
        group = _group(shard, group_id)
        error = Errors.NONE
        if group is None or group.state is DEAD:
            error = Errors.GROUP_ID_NOT_FOUND
        elif isinstance(group, ClassicGroup) and group.state not in EMPTY:
            error = Errors.NONE if group.protocol_type == CONSUMER else Errors.NON_EMPTY_GROUP
        if error or group is None:
            self._runtime.respond(parked, OffsetDeleteResponse(error))
            return
        results: list[tuple[TopicPartition, Errors]] = []
        gone: list[TopicPartition] = []
        for tp in request.partitions:
            if group.is_subscribed(tp.topic):
                results.append((tp, Errors.GROUP_SUBSCRIBED_TO_TOPIC))
                continue
            results.append((tp, Errors.NONE))
            if shard.latest(group_id, tp) is not None or shard.pending.has(group_id, tp):
                gone.append(tp)
        answer = OffsetDeleteResponse(Errors.NONE, tuple(results))
        if isinstance(group, ClassicGroup) and not self._new_coordinator:
            if any(error is Errors.NONE for _, error in results):
                self._deletion.clean(shard, group, gone, False, now)
            self._runtime.respond(parked, answer)
            return
        error = self._deletion.drop_offsets(shard, group_id, gone, now)

        def on_written(_: None, error: Errors, _now: int) -> None:
            failed = OffsetDeleteResponse(client_error(error))
            self._runtime.respond(parked, failed if error else answer)

        if error:
            on_written(None, error, now)
        else:
            self._runtime.defer(shard.context, on_written, None, now)


def _group(shard: GroupShard, group_id: str) -> AnyGroup | None:
    return shard.groups.get(group_id) or shard.consumer_groups.get(group_id)


def _listed(group: AnyGroup | ShareGroup) -> ListedGroup:
    if isinstance(group, ShareGroup):
        return ListedGroup(group.group_id, SHARE, group.state.value, SHARE)
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, CONSUMER, group.state.value, CONSUMER)
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
