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

    def translated_without_sync(self, offset: int) -> int | None:
        """Return what an offset of a partition without any offset sync is translated to.

        None: to nothing, no checkpoint is emitted (OffsetSyncStore.latestOffsetSync, KAFKA-12635).
        """
        return None

    def may_be_emitted(self, down: int) -> bool:
        """Return whether a translated offset becomes a checkpoint.

        −1 says that the group is behind all offset syncs. 0 is an offset like any other
        (MirrorCheckpointTask.checkpointsForGroup, KAFKA-10048).
        """
        return down >= 0

    def waits_for_syncs(self) -> bool:
        """Return whether a starting task translates nothing until it has read all offset syncs.

        (OffsetSyncStore.translateDownstream, KAFKA-13659)
        """
        return True

    def reads_checkpoints(self) -> bool:
        """Return whether a starting task reads the checkpoints that it has emitted before.

        With them no new one goes back (CheckpointStore, KAFKA-15905).
        """
        return True

    def keeps_older_syncs(self) -> bool:
        """Return whether syncs before the newest one translate groups that lag behind it.

        (OffsetSyncStore.updateSyncArray, KAFKA-14666)
        """
        return True

    def only_last_sync_at_start(self, checkpoints_read: bool) -> bool:
        """Return whether a starting task takes only the last sync of each partition.

        It takes all of them if it has read its earlier checkpoints, with which no new one goes back
        (OffsetSyncStore.start, KAFKA-15905).
        """
        return not checkpoints_read

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic is one of Connect's or MirrorMaker's own, which nobody mirrors.

        (ReplicationPolicy.isInternalTopic, KAFKA-13397)
        """
        return topic.startswith(("__", ".")) or topic.endswith((".internal", "-internal"))

    def queues_syncs(self) -> bool:
        """Return whether a sync that cannot be sent now, or is not due, is sent later.

        (OffsetSyncWriter, KAFKA-14610, KAFKA-15906)
        """
        return True

    def sync_is_stale(self, up: int, down: int, last_up: int, last_down: int, lag_max: int) -> bool:
        """Return whether the last sync would translate a record's offset too far back.

        The record ``up`` is at ``down``. A group behind the last sync is translated to
        ``last_down + 1`` and no further (OffsetSyncWriter.PartitionState.update, KAFKA-14797).
        """
        return down - (last_down + 1) >= lag_max
