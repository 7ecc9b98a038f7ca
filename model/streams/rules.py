"""The decisions of Kafka Streams that it once got wrong, or that a KIP changed.

The base class has the rules of Kafka 4.1. A variant overrides some of them.
"""

from __future__ import annotations

from kafkasim.model.streams.processors.rules import OperatorRules


class StreamsRules(OperatorRules):
    """What an application of Kafka Streams decides; its operators' rules are among them."""

    # The assignment.

    def moves_to_most_caught_up(self) -> bool:
        """Return whether a task goes to the process with the least lag if none is caught up.

        Before KAFKA-13600 it went to any process then, which restored all of it.
        """
        return True

    # State.

    def wipes_unclean_state(self) -> bool:
        """Return whether exactly_once_v2 restores anew if there is state without a checkpoint.

        Before KAFKA-7192 it restored over what was left, with writes that were never committed.
        """
        return True

    def deletes_checkpoint_on_open(self) -> bool:
        """Return whether exactly_once_v2 deletes the checkpoint file once it is read."""
        return True

    def deletes_checkpoint_before_running(self) -> bool:
        """Return whether exactly_once_v2 deletes the checkpoint that a restore wrote at its end.

        Before KAFKA-20685 it stayed while the task wrote, and after a crash it vouched for writes
        that were never committed.
        """
        return True

    def forgets_written_offsets(self) -> bool:
        """Return whether a closed task forgets the changelog offsets that it has written.

        Before KAFKA-16017 a task that was revived and closed while it restored wrote them into its
        checkpoint, though its wiped store had less.
        """
        return True

    def clears_caches_when_recycled(self) -> bool:
        """Return whether an active task that becomes a standby forgets its caches (KAFKA-14172)."""
        return True

    def refuses_dirty_recycling(self) -> bool:
        """Return whether a task with uncommitted work is closed dirty, not recycled (KAFKA-10198).

        The store of a recycled one keeps writes of an aborted transaction.
        """
        return True

    # Commits.

    def commits_open_transaction(self) -> bool:
        """Return whether a transaction is committed without any offsets (KAFKA-14294).

        Else what a punctuator wrote waits until the coordinator aborts it.
        """
        return True

    def commits_only_for_revoked(self) -> bool:
        """Return whether a revocation commits only if a revoked task needs it (KAFKA-18943).

        Else it commits the thread's transaction without the offsets of the tasks that stay.
        """
        return True

    def commits_leader_epochs(self) -> bool:
        """Return whether positions are committed with their leader epochs (KIP-1094)."""
        return True

    def purges_committed_only(self) -> bool:
        """Return whether repartition records are deleted below the committed offset (KAFKA-17635).

        Else below the consumed one, and a restarted task does not find its input.
        """
        return True

    def resumes_by_size(self) -> bool:
        """Return whether a paused partition is resumed as soon as its queue has room (KAFKA-17299).

        Else only if a processed record makes the queue exactly as long as the limit.
        """
        return True

    # Operators.

    def shares_join_clock(self) -> bool:
        """Return whether all tasks of a process share a join's stream time (KAFKA-14862)."""
        return False
