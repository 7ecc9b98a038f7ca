"""Decisions of Connect's workers that Kafka once got wrong.

A variant (``scenarios/variants/``) is a subclass that overrides one of the methods.
"""

from __future__ import annotations


class WorkerRules:
    """Kafka's rules, as of 4.1."""

    def stops_without_coordinator(self) -> bool:
        """Return whether a worker that cannot reach the group coordinator stops its tasks.

        The group gives them to others meanwhile (WorkerCoordinator.poll, KAFKA-9184).
        """
        return True

    def stops_revoked(self, resolved: bool) -> bool:
        """Return whether a worker stops what a rebalance has revoked.

        ``resolved``: it has started what the rebalance before gave it
        (DistributedHerder.RebalanceListener.onRevoked, KAFKA-10763).
        """
        return True

    def missing_of_present_workers_is_lost(self) -> bool:
        """Return whether work that nobody runs waits for a worker, although none has left.

        A worker may have missed its last assignment: the work is given out at once
        (IncrementalCooperativeAssignor.handleLostAssignments, KAFKA-9848).
        """
        return False

    def may_revoke_twice(self) -> bool:
        """Return whether two rebalances in a row may revoke work to even out the load.

        The second one waits for a delay that grows (IncrementalCooperativeAssignor, KAFKA-12495).
        """
        return True

    def reassigns_without_delay(self) -> bool:
        """Return whether scheduled.rebalance.max.delay.ms = 0 gives lost work out at once.

        (IncrementalCooperativeAssignor.handleLostAssignments, KAFKA-15693)
        """
        return True

    def commits_each_partition(self) -> bool:
        """Return whether a task commits the source offset of each partition by itself.

        It is the end of the partition's acknowledged prefix, whatever other partitions wait for
        (SubmittedRecords, KAFKA-12226).
        """
        return True
