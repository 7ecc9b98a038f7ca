"""What the coordinator has assigned to a member, and the names of the topics in it (KIP-848).

Models currentTargetAssignment and assignedTopicNamesCache of AbstractMembershipManager. The
coordinator names topics by id; the member fetches by name, and knows the names from metadata, which
may come later than the assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.client.consumer.modern.member_state import NONE, LocalAssignment
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules

Partitions = tuple[TopicPartition, ...]


class TargetAssignment:
    """The assignment that the coordinator sent last."""

    def __init__(self, metadata: Metadata, rules: ClientRules) -> None:
        self._metadata = metadata
        self._rules = rules
        self._latest = NONE
        self._names: dict[str, str] = {}  # of assigned topics, by id

    def receive(self, partitions: dict[str, tuple[int, ...]]) -> None:
        """Take what a response says; it has a new local epoch if it is not the same as before."""
        if self._latest is NONE or partitions != self._latest.partitions:
            self._latest = LocalAssignment(self._latest.local_epoch + 1, partitions)

    def forget(self) -> None:
        """Have no assignment: the member is not in the group, or joins anew."""
        self._latest = NONE
        self._names.clear()

    def is_reconciled(self, current: LocalAssignment) -> bool:
        """Return whether the member has reconciled this assignment: ``current`` is it."""
        return current == self._latest

    def resolve(self, current: LocalAssignment, now: int) -> tuple[LocalAssignment, Partitions]:
        """Return the part whose topics are known by name, and its partitions, in order.

        ``current`` is what the member has reconciled so far.
        """
        known = {topic_id: name for name, topic_id in self._metadata.topic_ids.items()}
        latest = self._latest
        self._names = {
            topic_id: known.get(topic_id) or self._names[topic_id]
            for topic_id in latest.partitions
            if topic_id in known or topic_id in self._names
        }
        found = {k: some for k, some in latest.partitions.items() if k in self._names}
        if len(found) < len(latest.partitions):
            self._metadata.request_update(now, fresh=True)
        late = [k for k in found if k not in current.partitions]
        if late and current.partitions and current.local_epoch == latest.local_epoch:
            found = self._with_late(found, late)
        wanted = [TopicPartition(self._names[k], n) for k, some in found.items() for n in some]
        return LocalAssignment(self._latest.local_epoch, found), tuple(sorted(wanted))

    def _with_late(
        self, found: dict[str, tuple[int, ...]], late: list[str]
    ) -> dict[str, tuple[int, ...]]:
        """Return what to reconcile when names of topics come after a part was reconciled."""
        if self._rules.keeps_reconciled_topics():
            return found
        found = {k: found[k] for k in late}
        self._latest = LocalAssignment(self._latest.local_epoch, found)
        return found
