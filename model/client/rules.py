"""Decisions of the clients that Kafka once got wrong, or that a KIP changed.

A variant (``scenarios/variants/``) is a subclass that overrides one of the methods.
"""

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
        Errors.TOPIC_AUTHORIZATION_FAILED,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Errors.INVALID_PRODUCER_EPOCH,
        Errors.UNKNOWN_PRODUCER_ID,
        Errors.PRODUCER_FENCED,
        Errors.INVALID_PRODUCER_ID_MAPPING,
        Errors.INVALID_TXN_STATE,
        Errors.CONCURRENT_TRANSACTIONS,
        Errors.TRANSACTION_ABORTABLE,
        Errors.POLICY_VIOLATION,
    }
)
"""Errors with which a broker refuses a batch before it appends it."""

LEADER_ERRORS = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors with which a broker refuses a batch that it does not lead.

With acks=1 that is before the append. With acks=all the broker may have lost its leadership while
the request waited for replication (DelayedProduce).
"""


class ClientRules:
    """Kafka's rules, as of the newest version that is modelled."""

    def accepts_leader(self, cached_epoch: int, epoch: int) -> bool:
        """Return whether metadata of leader epoch ``epoch`` replaces a partition's cached entry.

        The last seen epoch never goes back (KIP-320). Otherwise a broker with stale metadata would
        send the client to a deposed leader.
        """
        return epoch >= cached_epoch

    def is_another_topic(self, known_id: str | None, topic_id: str) -> bool:
        """Return whether metadata describes a topic that was created again under a known name.

        Then nothing that is known of the old topic counts (KIP-516). By the name alone the old
        topic's higher leader epochs would keep out the new topic's leaders (B45).
        """
        return known_id != topic_id

    def backs_off_exponentially(self) -> bool:
        """Return whether a retry waits for longer each time, up to retry.backoff.max.ms (KIP-580).

        So does a request for metadata after answers that told nothing new (KAFKA-9800). Before 3.7
        each waited retry.backoff.ms, without jitter.
        """
        return True

    def takes_named_leader(self) -> bool:
        """Return whether a client takes the newer leader that an error response names (KIP-951).

        Else it learns of the new leader by its next Metadata request, as before 3.7.
        """
        return True

    def skips_backoff(self, attempt_epoch: int, leader_epoch: int) -> bool:
        """Return whether a retry is sent without backoff, as its leader is newer (KIP-951).

        ``attempt_epoch`` is the leader epoch of the last attempt, ``leader_epoch`` the one known
        now.
        """
        return leader_epoch > attempt_epoch

    def knows_abortable(self) -> bool:
        """Return whether a client knows TRANSACTION_ABORTABLE (KIP-890; Produce 11, since 3.8).

        Else a broker that cannot verify its transaction answers INVALID_TXN_STATE.
        """
        return True

    def exhausted_retries_abort(self) -> bool:
        """Return whether a transaction whose batch is given up for a retriable error, or for
        INVALID_TXN_STATE, fails with TRANSACTION_ABORTABLE (maybeTransitionToErrorState).

        So it is since 4.1 (KIP-1050). Before, the application gets the error itself; its
        transaction can only be aborted either way.
        """
        return False

    def recovers_from_authorization(self) -> bool:
        """Return whether a transactional producer that was refused a producer id may be initialized
        again (KAFKA-13668, Sender.shouldHandleAuthorizationError). In 2.8 that is fatal.
        """
        return True

    def known_not_appended(self, error: Errors, acks: int) -> bool:
        """Return whether an attempt that failed with ``error`` is known to have left no record."""
        return error in BEFORE_APPEND or (acks != -1 and error in LEADER_ERRORS)

    def retries_async_commit(self) -> bool:
        """Return whether a failed async commit is sent again.

        Kafka never does: the retry may arrive after a later commit and move the offset back (B63).
        """
        return False

    def pauses_pending_revocation(self) -> bool:
        """Return whether poll() returns no records of a partition that is about to be revoked.

        Otherwise records are processed behind the offset that the rebalance commits (KAFKA-14196,
        B65).
        """
        return True

    def sticks_by_bytes(self) -> bool:
        """Return whether records without a key change partition by bytes sent (KIP-794).

        Else they do so with each batch, from 2.4 to 3.2 (KIP-480): a broker that is slow gets
        larger batches, and so more records (KAFKA-10888).
        """
        return True

    def partitions_again_for_new_batch(self) -> bool:
        """Return whether a custom partitioner is asked again if its choice opens a new batch.

        So it was until 3.9, for onNewBatch (KIP-480). RoundRobinPartitioner counts each time: of
        two partitions it skips one for ever (KAFKA-9965).
        """
        return False

    def leader_watches_topics(self) -> bool:
        """Return whether a classic group's leader joins again when its topics' partitions change.

        It compares them with those that it has assigned (ConsumerCoordinator
        .rejoinNeededOrPending): nobody else gives a group the partitions that a topic has got.
        """
        return True

    def withholds_owned_partitions(self) -> bool:
        """Return whether the cooperative assignor gives away nothing that a member still owns.

        The next owner gets it in the rebalance after its revocation (KIP-429).
        """
        return True

    def spares_nodes_of_buffered(self) -> bool:
        """Return whether a consumer fetches nothing from a node of which it has records buffered.

        Before 4.0 it fetched the node's other partitions. The buffered ones left the fetch session
        and came back, or ended it (KAFKA-17182).
        """
        return True

    def resumes_within_batch(self) -> bool:
        """Return whether poll() goes on within a batch of which max.poll.records left the rest.

        The position is behind the last record that was returned (CompletedFetch.fetchRecords).
        """
        return True

    def keeps_reconciled_topics(self) -> bool:
        """Return whether a member keeps what it has reconciled when the names of more topics come.

        Metadata may know only some of the topics of an assignment (KIP-848). If what is resolved
        later counts as the whole assignment, the member gives the rest up (KAFKA-16198, B99).
        """
        return True

    def validates_position(self) -> bool:
        """Return whether a position is validated when its leader epoch changes (KIP-320)."""
        return True

    def new_epoch_waits_for_in_flight(self) -> bool:
        """Return whether a partition takes a bumped producer epoch only when none is in flight.

        Otherwise a batch of the new epoch with sequence 0 may overtake batches of the old one
        (KAFKA-5494, B58).
        """
        return True

    def new_epoch_renumbers_idle(self) -> bool:
        """Return whether a partition with nothing in flight begins at sequence 0 when another one
        has the producer epoch raised (KAFKA-12152, B98).

        Otherwise its next batch has the new epoch and the old numbering, and is out of order.
        """
        return True

    def stops_drain_at_held_back(self) -> bool:
        """Return whether a batch that may not be sent holds up its node's other partitions.

        Each node has a drain index, which stays at such a batch (KAFKA-13834).
        """
        return True

    def split_size(self, batch_size: int) -> int:
        """Return the limit in bytes of the parts of a batch that was too large.

        Kafka splits by batch.size (RecordAccumulator.splitAndReenqueue). A batch that is no larger
        is sent again as it is, at once, until delivery.timeout.ms ends it (KAFKA-8350).
        """
        return batch_size

    # The old consumer (client/legacy).

    def stops_fetchers_before_release(self) -> bool:
        """Return whether an old consumer takes no more records before it gives partitions up.

        Otherwise it goes on with what it has fetched while the next owner begins (B85, KAFKA-228).
        """
        return True

    def commits_at_rebalance(self, auto_commit: bool) -> bool:
        """Return whether an old consumer commits before it gives partitions up.

        That is part of auto-commit: an application that commits by itself has not processed what it
        has got (B86, KAFKA-919).
        """
        return auto_commit

    def keeps_partitions_of_lost_session(self) -> bool:
        """Return whether an old consumer still counts as its own what its lost session owned.

        The znodes are gone. The next rebalance would delete those of the next owners
        (ZKSessionExpireListener.handleNewSession).
        """
        return False
