"""What KafkaConsumer needs of its membership in a group, whatever the group's protocol is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.group.commits import OffsetCommits
    from kafkasim.model.client.consumer.group.committed import CommittedOffsets


class GroupMember(Protocol):
    """A member: ConsumerCoordinator for the classic protocol, ConsumerGroupMember for KIP-848."""

    commits: OffsetCommits
    committed: CommittedOffsets

    def on_subscribed(self) -> None:
        """Take a new subscription."""

    def note_changes(self) -> None:
        """Look at new metadata."""

    def poll(self, now: int) -> bool:
        """Do what the group needs next; return whether the assignment is in use."""
        ...

    def unsubscribe(self, now: int) -> None:
        """Give the partitions up and leave; a new subscription joins again."""

    def close(self, now: int, done: Callable[[int], None]) -> None:
        """Commit if auto-commit is on, give the partitions up, leave, then call ``done(now)``."""
