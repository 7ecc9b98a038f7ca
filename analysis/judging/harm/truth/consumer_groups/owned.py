"""Who owns which partitions of each consumer group, in the committed view of its coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Owned:
    """The owners that coordinators have told, and the members that are left."""

    def __init__(self) -> None:
        # Group -> partition -> its owner, and the row that says so.
        self._owners: dict[str, dict[str, tuple[str, int]]] = {}
        # Group -> its members, as its coordinator told last. Not all of it may be committed.
        self._members: dict[str, tuple[str, ...]] = {}

    def has_members(self, group: str, member_ids: tuple[str, ...]) -> None:
        """Note who is a member, as the present coordinator has it."""
        self._members[group] = member_ids

    def forget(self, group: str) -> None:
        """Forget all owners: they are told anew."""
        self._owners.pop(group, None)

    def forget_gone(self, of: Callable[[str], bool]) -> None:
        """Take from members what they owned that were gone when the last coordinator told of them.

        ``of`` tells the groups that another one loads. It tells of those that its log has. If it
        tells of them with these members, it has lost that they are gone, and tells anew what they
        own.
        """
        for group, owners in self._owners.items():
            members = self._members.get(group)
            if members is None or not of(group):
                continue
            for name in [name for name, (who, _) in owners.items() if who not in members]:
                del owners[name]

    def forget_topic(self, topic: str) -> None:
        """Forget the owners of a topic's partitions: it is deleted."""
        for owners in self._owners.values():
            for name in [name for name in owners if name.rpartition("-")[0] == topic]:
                del owners[name]

    def take(self, group: str, member_id: str) -> None:
        """Take from a member what it owned."""
        owners = self._owners.setdefault(group, {})
        for name in [name for name, (who, _) in owners.items() if who == member_id]:
            del owners[name]

    def give(
        self, group: str, member_id: str, names: Sequence[str], seq: int
    ) -> list[tuple[str, str, int]]:
        """Give partitions to a member; return those that others own: name, owner, row."""
        owners = self._owners.setdefault(group, {})
        others = [(name, *owners[name]) for name in names if name in owners]
        for name in names:
            owners[name] = (member_id, seq)
        return others
