"""Decisions of the clients that Kafka got wrong once, or that a KIP changed."""

from __future__ import annotations

from kafkasim.model.errors import Errors

BEFORE_APPEND = frozenset(
    {
        Errors.NOT_ENOUGH_REPLICAS,
        Errors.MESSAGE_TOO_LARGE,
        Errors.RECORD_LIST_TOO_LARGE,
        Errors.CORRUPT_MESSAGE,
        Errors.INVALID_RECORD,
        Errors.INVALID_TIMESTAMP,
        Errors.INVALID_REQUIRED_ACKS,
        Errors.INVALID_REQUEST,
        Errors.INVALID_TOPIC_EXCEPTION,
        Errors.UNSUPPORTED_VERSION,
        Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Errors.INVALID_PRODUCER_EPOCH,
        Errors.UNKNOWN_PRODUCER_ID,
        Errors.POLICY_VIOLATION,
    }
)
"""Errors that a broker answers only before it appends."""

LEADER_ERRORS = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.UNKNOWN_TOPIC_OR_PARTITION})
"""With acks=1 these too come from before the append; with acks=all leadership may have been lost
while the request waited for replication (DelayedProduce)."""


class ClientRules:
    """The rules of the base model. Variants override single methods."""

    def accepts_leader(self, cached_epoch: int, epoch: int) -> bool:
        """Return whether metadata of ``epoch`` replaces a partition's cached entry.

        Kafka: the last seen epoch never goes back (KIP-320), else a stale broker sends the client
        back to a deposed leader.
        """
        return epoch >= cached_epoch

    def is_another_topic(self, known_id: str | None, topic_id: str) -> bool:
        """Return whether metadata speaks of another topic of a known name, so that nothing known of
        the old one counts (KIP-516; by the name alone its higher leader epochs stand, B45)."""
        return known_id != topic_id

    def skips_backoff(self, attempt_epoch: int, leader_epoch: int) -> bool:
        """Return whether a retry goes out at once: a newer leader is known (KIP-951)."""
        return leader_epoch > attempt_epoch

    def known_not_appended(self, error: Errors, acks: int) -> bool:
        """Return whether an attempt answered by ``error`` left nothing in the log."""
        return error in BEFORE_APPEND or (acks != -1 and error in LEADER_ERRORS)

    def retries_async_commit(self) -> bool:
        """Return whether an async commit is repeated: it might overtake a later one (B63)."""
        return False

    def pauses_pending_revocation(self) -> bool:
        """Return whether a partition about to be revoked returns no records (KAFKA-14196, B65)."""
        return True

    def validates_position(self) -> bool:
        """Return whether a new leader epoch sends positions to validation (KIP-320)."""
        return True

    def new_epoch_waits_for_in_flight(self) -> bool:
        """Return whether a bumped producer epoch waits for a partition's in-flight batches.

        Else a batch of the new epoch with sequence 0 may overtake older ones (KAFKA-5494, B58).
        """
        return True

    def split_size(self, batch_size: int, size: int) -> int:
        """Return the size limit of the parts of a batch that was too large.

        Kafka splits by batch.size; without compression that may not make the batch smaller, so it
        is halved at least.
        """
        return min(batch_size, size // 2)
