"""The share groups of a group coordinator: its parts, and who serves which request (KIP-932).

Kafka: the share group methods of GroupCoordinatorService and of KafkaApis. Share groups exist where
the release has them and the feature share.version is 1; elsewhere these requests are answered
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.config import BrokerConfig, ShareGroupSettings
from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.share.description import described
from kafkasim.model.group.share.heartbeat import ShareGroupHeartbeats, is_valid
from kafkasim.model.group.share.initialization import StateInitialization
from kafkasim.model.group.share.log.records import group_tombstones
from kafkasim.model.group.share.log.writer import ShareGroupWriter
from kafkasim.model.group.share.members import ShareGroupMembers
from kafkasim.model.group.share.offsets import ShareGroupOffsets
from kafkasim.model.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kafkasim.model.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribedShareGroup,
    DescribedShareGroupOffsets,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

NONE, UNKNOWN = Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION

SHARE_GROUP_REQUESTS = (
    ShareGroupHeartbeatRequest,
    ShareGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
)

OF_SHARE_GROUPS: dict[type, Errors] = {
    JoinGroupRequest: Errors.INCONSISTENT_GROUP_PROTOCOL,
    SyncGroupRequest: Errors.UNKNOWN_MEMBER_ID,
    HeartbeatRequest: Errors.UNKNOWN_MEMBER_ID,
    LeaveGroupRequest: Errors.UNKNOWN_MEMBER_ID,
    ConsumerGroupHeartbeatRequest: Errors.GROUP_ID_NOT_FOUND,
    OffsetCommitRequest: Errors.GROUP_ID_NOT_FOUND,
}
"""What requests of other protocols are refused with if the group is a share group."""

Find = Callable[[str], GroupShard | Errors]


def group_ids_of(request: Any) -> tuple[str, ...]:
    """Return the groups that a request of :data:`SHARE_GROUP_REQUESTS` names."""
    if type(request) is ShareGroupDescribeRequest:
        return request.group_ids
    if type(request) is DescribeShareGroupOffsetsRequest:
        return tuple([group.group_id for group in request.groups])
    return (request.group_id,)


class ShareGroups:
    """Serves the requests of :data:`SHARE_GROUP_REQUESTS`; ``find`` gives a group's shard."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        config: BrokerConfig,
        rules: GroupRules,
        image: TopicsImage,
        find: Find,
    ) -> None:
        self._runtime = runtime
        self._supported = rules.has_share_groups()
        self._alters_offsets = rules.alters_share_offsets()
        self._image = image
        self._find = find
        self.writer = writer = ShareGroupWriter(runtime)
        members = ShareGroupMembers(runtime, config, image, writer, self.settings)
        self.initialization = StateInitialization(runtime, config, image, writer, self.settings)
        self._members = members
        self._heartbeats = ShareGroupHeartbeats(
            runtime, config, image, writer, members, self.initialization
        )
        self._offsets = ShareGroupOffsets(runtime, image, writer, self.initialization)

    @property
    def enabled(self) -> bool:
        """Whether groups may use this protocol (KafkaApis.isShareGroupProtocolEnabled)."""
        return self._supported and self._image.share_version >= 1

    def settings(self, group_id: str) -> ShareGroupSettings:
        """Return the settings of one group (GroupConfigManager.groupConfig)."""
        own = self._image.group_configs.get(group_id)
        return ShareGroupSettings.from_properties(own) if own else DEFAULTS

    def on_request(self, parked: Parked, request: Any, now: int) -> None:
        """Serve a request; its answer may come later."""
        kind = type(request)
        if not self.enabled:
            self._runtime.respond(parked, _unsupported(request))
        elif kind is ShareGroupHeartbeatRequest:
            self._heartbeat(parked, request, now)
        elif kind is ShareGroupDescribeRequest:
            groups = tuple([self._describe(group_id) for group_id in request.group_ids])
            self._runtime.respond(parked, ShareGroupDescribeResponse(groups))
        elif kind is DescribeShareGroupOffsetsRequest:
            self._describe_offsets(parked, request)
        elif kind is AlterShareGroupOffsetsRequest:
            self._alter(parked, request, now)
        else:
            self._delete_offsets(parked, request, now)

    def _heartbeat(self, parked: Parked, request: ShareGroupHeartbeatRequest, now: int) -> None:
        shard = self._find(request.group_id)
        error = NONE if is_valid(request) else Errors.INVALID_REQUEST
        if error is NONE and isinstance(shard, Errors):
            error = shard
        if error is not NONE or isinstance(shard, Errors):
            self._runtime.respond(parked, ShareGroupHeartbeatResponse(error))
        else:
            self._heartbeats.on_heartbeat(shard, parked, request, now)

    def _describe(self, group_id: str) -> DescribedShareGroup:
        if not group_id:
            return DescribedShareGroup(Errors.INVALID_GROUP_ID, group_id)
        shard = self._find(group_id)
        if isinstance(shard, Errors):
            return DescribedShareGroup(shard, group_id)
        return described(group_id, shard.share_groups.get(group_id), self._image)

    def _describe_offsets(self, parked: Parked, request: DescribeShareGroupOffsetsRequest) -> None:
        found: dict[int, DescribedShareGroupOffsets] = {}
        expected = len(request.groups)

        def taker(place: int) -> Callable[[DescribedShareGroupOffsets], None]:
            def take(answer: DescribedShareGroupOffsets) -> None:
                found[place] = answer
                if len(found) == expected:
                    groups = tuple([found[each] for each in range(expected)])
                    self._runtime.respond(parked, DescribeShareGroupOffsetsResponse(groups))

            return take

        for place, asked in enumerate(request.groups):
            self._offsets.describe(self._find(asked.group_id), asked, taker(place))
        if not request.groups:
            self._runtime.respond(parked, DescribeShareGroupOffsetsResponse(()))

    def _alter(self, parked: Parked, request: AlterShareGroupOffsetsRequest, now: int) -> None:
        """Serve what names topics that exist; KafkaApis refuses the rest, before any check."""
        unknown = tuple(
            [
                (name, "", tuple([(number, UNKNOWN) for number, _ in partitions]))
                for name, partitions in request.topics
                if self._image.topic_by_name(name) is None
            ]
        )
        if not self._alters_offsets:
            self._runtime.respond(parked, AlterShareGroupOffsetsResponse(NONE, unknown))
            return
        names = [name for name, _, _ in unknown]
        known = tuple([topic for topic in request.topics if topic[0] not in names])
        shard = self._find(request.group_id)
        error = NONE
        if not request.group_id:
            error = Errors.INVALID_GROUP_ID
        elif known and isinstance(shard, Errors):
            error = shard
        if error is not NONE or not known or isinstance(shard, Errors):
            responses = unknown if error is NONE else ()
            self._runtime.respond(parked, AlterShareGroupOffsetsResponse(error, responses))
            return

        def merge(answer: AlterShareGroupOffsetsResponse) -> AlterShareGroupOffsetsResponse:
            return replace(answer, responses=(*unknown, *answer.responses))

        self._runtime.merges[parked] = merge
        self._offsets.on_alter(shard, parked, replace(request, topics=known), now)

    def _delete_offsets(
        self, parked: Parked, request: DeleteShareGroupOffsetsRequest, now: int
    ) -> None:
        shard = self._find(request.group_id)
        error = NONE
        if not request.group_id:
            error = Errors.INVALID_GROUP_ID
        elif request.topics and isinstance(shard, Errors):
            error = shard
        if error is not NONE or not request.topics or isinstance(shard, Errors):
            self._runtime.respond(parked, DeleteShareGroupOffsetsResponse(error))
        else:
            self._offsets.on_delete_offsets(shard, parked, request, now)

    # -------------------------------------------------------------------------- whole groups

    def delete_states(
        self,
        group_ids: tuple[str, ...],
        done: Callable[[dict[str, Errors], int], None],
        now: int,
    ) -> None:
        """Have the states of empty share groups deleted, then call ``done(errors, now)``.

        Groups of other types, and those with members, are left to the deletion of groups, which
        follows. Kafka lets the groups of one offsets partition wait for each other; here all do.
        """
        waiting: dict[str, None] = {}
        errors: dict[str, Errors] = {}
        started = False

        def taker(group_id: str) -> Callable[[Errors, int], None]:
            def take(error: Errors, at: int) -> None:
                errors[group_id] = error
                waiting.pop(group_id, None)
                if started and not waiting:
                    done(errors, at)

            return take

        for group_id in dict.fromkeys(group_ids):
            shard = self._find(group_id)
            group = None if isinstance(shard, Errors) else shard.share_groups.get(group_id)
            if isinstance(shard, Errors) or group is None or group.members:
                continue
            waiting[group_id] = None
            if not self._offsets.delete_states(shard, group_id, taker(group_id), now):
                waiting.pop(group_id, None)
        started = True
        if not waiting:
            done(errors, now)

    def delete_if_empty(self, shard: GroupShard, group_id: str, now: int) -> Errors:
        """Append the tombstones of an empty group."""
        entries = group_tombstones(group_id)
        return self.writer.write(shard, group_id, entries, "group deleted", now)

    def on_topics_deleted(self, shards: list[GroupShard], topic_ids: tuple[str, ...]) -> None:
        """Forget the share partitions of deleted topics. Callable on any lane."""
        for shard in shards:
            if shard.share_groups:
                post = Post(shard.context.lane, self._cleanup, (shard, topic_ids))
                self._runtime.out.append(post)

    def _cleanup(self, message: tuple[GroupShard, tuple[str, ...]], now: int) -> None:
        shard, topic_ids = message
        if shard.context.is_active:
            self._offsets.cleanup(shard, topic_ids, now)

    def on_topics_changed(self, shard: GroupShard, names: tuple[str, ...]) -> None:
        """Have groups look their topics up that subscribe to one of these."""
        for group in shard.share_groups.values():
            if any(name in member.topics for member in group.members.values() for name in names):
                group.request_refresh()

    def on_loaded(self, shard: GroupShard, now: int) -> None:
        """Let all sessions start anew."""
        for group in shard.share_groups.values():
            self.writer.record(shard, group.group_id, "loaded")
            for member_id in group.members:
                self._members.arm_session(shard, group.group_id, member_id, now)

    def on_unloaded(self, shard: GroupShard) -> None:
        """Let all sessions go."""
        for group in shard.share_groups.values():
            for member_id in group.members:
                self._members.cancel_session(group.group_id, member_id)

    def on_reverted(self, shard: GroupShard) -> None:
        """Undo what a batch has changed that could not be appended."""
        for group_id in shard.revert_share_groups():
            self.writer.record(shard, group_id, "reverted")


DEFAULTS = ShareGroupSettings()


def _unsupported(request: Any) -> Any:
    error, kind = Errors.UNSUPPORTED_VERSION, type(request)
    if kind is ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatResponse(error)
    if kind is ShareGroupDescribeRequest:
        return ShareGroupDescribeResponse(
            tuple([DescribedShareGroup(error, group_id) for group_id in request.group_ids])
        )
    if kind is DescribeShareGroupOffsetsRequest:
        return DescribeShareGroupOffsetsResponse(
            tuple([DescribedShareGroupOffsets(each.group_id, error) for each in request.groups])
        )
    if kind is AlterShareGroupOffsetsRequest:
        return AlterShareGroupOffsetsResponse(error)
    return DeleteShareGroupOffsetsResponse(error)
