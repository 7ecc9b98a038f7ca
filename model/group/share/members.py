"""How the members of share groups go: they leave, or their session expires.

Kafka: shareGroupLeave, shareGroupFenceMember, scheduleShareGroupSessionTimeout of
GroupMetadataManager.
A timer whose write fails is tried again half a second later (CoordinatorTimer).
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.config import BrokerConfig, ShareGroupSettings
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.share.log.records import Entry, epoch_entry, removal_entries
from kafkasim.model.group.share.log.state import ShareGroup, metadata_hash, subscribed_topics
from kafkasim.model.group.share.log.writer import ShareGroupWriter

RETRY_US = 500_000
"""How long a timer waits after a write that failed."""


class ShareGroupMembers:
    """Removes members, and has the timers that do."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        config: BrokerConfig,
        image: TopicsImage,
        writer: ShareGroupWriter,
        settings: Callable[[str], ShareGroupSettings],
    ) -> None:
        """``settings(group_id)`` are those of one group."""
        self._runtime = runtime
        self._config = config
        self._image = image
        self._writer = writer
        self._settings = settings

    def removal(self, group: ShareGroup, member_id: str) -> list[Entry]:
        """Return the records that remove a member; its session ends at once."""
        others = {key: member for key, member in group.members.items() if key != member_id}
        found = metadata_hash(subscribed_topics(others), self._image)
        self.cancel_session(group.group_id, member_id)
        return [
            *removal_entries(group.group_id, member_id),
            epoch_entry(group.group_id, group.group_epoch + 1, found),
        ]

    def arm_session(self, shard: GroupShard, group_id: str, member_id: str, now: int) -> None:
        """Let a member's session start anew."""
        own_ms = self._settings(group_id).share_session_timeout_ms
        timeout_ms = own_ms if own_ms > 0 else self._config.group_share_session_timeout_ms
        key = _key(group_id, member_id)

        def on_timer(at: int) -> None:
            group = shard.share_groups.get(group_id)
            if group is None or member_id not in group.members:
                return
            entries = self.removal(group, member_id)
            reason = f"session of {member_id} expired"
            error = self._writer.write(shard, group_id, entries, reason, at)
            if error is Errors.NONE:
                self._runtime.defer(shard.context, on_written, None, at)
            else:
                on_written(None, error, at)

        def on_written(_: None, error: Errors, at: int) -> None:
            if error is not Errors.NONE and shard.context.is_active:
                self._runtime.arm(shard.context, key, at + RETRY_US, on_timer)

        self._runtime.arm(shard.context, key, now + timeout_ms * 1000, on_timer)

    def cancel_session(self, group_id: str, member_id: str) -> None:
        """End a member's session without a consequence."""
        self._runtime.cancel(_key(group_id, member_id))


def _key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "share-group-session", group_id, member_id
