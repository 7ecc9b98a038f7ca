"""Which commits may have expired: those of a group without members for offsets.retention.minutes.

A coordinator removes the offsets of an empty group when the retention is over since the last member
left (KIP-211; OffsetMetadataManager.cleanupExpiredOffsets, GroupMetadata.removeExpiredOffsets). The
group's facts tell how long it was empty, so an expiry that the coordinator only believes in covers
nothing (KAFKA-13636). Offsets of topics that a group with members has unsubscribed from expire,
too, and are not known here.
"""

from __future__ import annotations

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource


class ExpiredOffsets:
    """Since when each group has no members, and when it last had none for the whole retention."""

    def __init__(self, trace: FactSource, retention_us: int) -> None:
        self.retention_us = retention_us
        self._empty_since: dict[str, int] = {}
        self._expirable: dict[str, int] = {}
        trace.subscribe(facts.GroupState, self._on_state)

    def _on_state(self, _seq: int, t: int, _node: str, fact: facts.GroupState) -> None:
        if not fact.member_ids:
            self._empty_since.setdefault(fact.group, t)
            return
        since = self._empty_since.pop(fact.group, t)
        if t - since >= self.retention_us:
            self._expirable[fact.group] = t

    def cover(self, group: str, committed: int, t: int) -> bool:
        """Return whether a commit of time ``committed`` may be gone at ``t``, both in µs."""
        since = self._empty_since.get(group, t)
        return t - since >= self.retention_us or committed <= self._expirable.get(group, -1)
