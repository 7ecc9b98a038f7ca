"""ShareRules: the decisions of share partitions that Kafka once got wrong.

The class as it stands is Kafka 4.1 with the corrections that its docstrings name; they came with
4.1.1 and 4.2. A variant (`scenarios/variants/`) overrides single methods.
"""

from __future__ import annotations


class ShareRules:
    """The rules of a share partition's leader."""

    def answers_after_write(self) -> bool:
        """Return whether an acknowledgement is answered only when its state is persisted.

        Kafka always waits (SharePartition.rollbackOrProcessStateUpdates). Without the wait, an
        acknowledged record comes again after a change of the leader.
        """
        return True

    def honours_transitions(self) -> bool:
        """Return whether a record in transition cannot be acquired (B91, KAFKA-18084).

        Kafka 3.9 gives it to another member while its release is being written; the lock of the
        first one stays, and takes the record from the second one when it expires.
        """
        return True

    def fetches_gaps_again(self) -> bool:
        """Return whether a new leader fetches the gaps in the persisted state (B90,
        KAFKA-18494).

        The records there were acquired and never acknowledged. Kafka 4.0 takes them for offsets
        without a record (SharePartition.maybeInitialize).
        """
        return True

    def begins_at_start_offset(self) -> bool:
        """Return whether a gap at the begin of the persisted state is fetched from the start
        offset on.

        Kafka 4.1.0 hands out the whole record batch that holds the start offset, with records that
        were done before (SharePartition.acquire).
        """
        return True

    def gap_behind(self, last_offset: int, gap_start: int) -> int:
        """Return where the next gap may begin behind a batch that ends at ``last_offset``.

        Kafka 4.1 forgets that the gap has been read to its start ``gap_start``, and fetches again
        from behind the batch (SharePartition.nextFetchOffset).
        """
        return max(last_offset + 1, gap_start)

    def ends_before_known_records(self) -> bool:
        """Return whether what is acquired of a gap ends before the records behind it.

        Kafka 4.1.0 goes on to the end of the record batch if the member wants fewer records than
        the gap has (SharePartition.acquireNewBatchRecords).
        """
        return True

    def delivery_limit(self, limit: int) -> int:
        """Return how often a record is delivered (InFlightState.tryUpdateState).

        ``limit`` is group.share.delivery.count.limit.
        """
        return limit

    def archives_every_batch(self) -> bool:
        """Return whether all batches below a new log start are archived.

        Kafka 4.1.0 archives the first one only (KAFKA-19630).
        """
        return True

    def keeps_archived_on_rollback(self) -> bool:
        """Return whether a record below the log start stays archived if a write fails
        (KAFKA-19476)."""
        return True

    def frees_expired_on_rollback(self) -> bool:
        """Return whether a record whose lock expired during a write that fails becomes available.

        In Kafka 4.1.0 it stays acquired, and no timer is left (KAFKA-19476).
        """
        return True

    def keeps_start_offset(self) -> bool:
        """Return whether the start offset never moves back.

        In Kafka 4.1.0 an acknowledgement after the log start has moved may (KAFKA-19859).
        """
        return True

    def written_start_offset(self, known: int, asked: int) -> int:
        """Return the start offset that a leader's write leaves to the share coordinator (B92,
        apache/kafka PR 23074).

        A write that waited for another coordinator may come after later ones, with the start offset
        that the leader had when it made it. Kafka 4.1 and 4.2 take that start offset, and the next
        leader hands out again what was done above it (ShareCoordinatorShard.merge).
        """
        return max(known, asked)

    def releases_around_others(self) -> bool:
        """Return whether all of a member's records are released when its session ends.

        Kafka 4.1.0 goes on to the next batch at the first offset of another member.
        """
        return True

    def delivery_change_on_release(self) -> int:
        """Return by how much the end of a session changes the delivery count of its records.

        Kafka 4.1 takes the delivery back, as the client may not have seen the records; 4.2 leaves
        it counted (releaseAcquiredRecordsForCompleteBatch).
        """
        return -1

    def searches_past_transitions(self) -> bool:
        """Return whether the next fetch begins behind records that are in transition.

        In Kafka 4.1.0 a share fetch that comes with a release begins at the released record, finds
        that it cannot be acquired yet, and is answered empty (SharePartition.nextFetchOffset).
        """
        return True
