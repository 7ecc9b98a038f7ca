"""Decisions of MirrorMaker 2 that Kafka once got wrong.

A variant (``scenarios/variants/``) is a subclass that overrides one of the methods.
"""

from __future__ import annotations


class MirrorRules:
    """Kafka's rules, as of 4.0."""

    def translated(self, up: int, down: int, offset: int) -> int:
        """Return the offset in the target that a group continues at.

        The newest offset sync at or before its ``offset`` says that record ``up`` is at ``down``.
        Behind the sync nobody knows which offsets hold records, so only the next one is safe
        (OffsetSyncStore.translateDownstream, KAFKA-12468).
        """
        return down + (1 if offset > up else 0)
