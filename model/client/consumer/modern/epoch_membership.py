"""What a member of a consumer group is to commits and to facts: its id and its member epoch."""

from __future__ import annotations

from kafkasim.model.client.consumer.group.membership import Membership
from kafkasim.model.errors import Errors


class EpochMembership(Membership):
    """The place of a member in its group (CommitRequestManager.MemberInfo).

    ``generation_id`` is the member epoch, 0 while it is not in the group. The member makes its id
    itself, and keeps it (KIP-1082).
    """

    __slots__ = ()

    def __init__(self, member_id: str) -> None:
        super().__init__()
        self.member_id = member_id
        self.generation_id = 0

    @property
    def lost(self) -> bool:
        """Whether the group does not count this member."""
        return self.generation_id <= 0

    def committer(self) -> tuple[Errors, int, str]:
        """Return under which epoch to commit; a member commits in every state."""
        epoch = self.generation_id
        return Errors.NONE, epoch if epoch > 0 else -1, self.member_id

    def offset_fetcher(self) -> tuple[str | None, int]:
        """Return under which member id and epoch to fetch offsets."""
        return (None, -1) if self.lost else (self.member_id, self.generation_id)
