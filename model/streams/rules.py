"""The decisions of Kafka Streams that it once got wrong, or that a KIP changed.

The base class has the rules of Kafka 4.0. A variant overrides some of them.
"""

from __future__ import annotations


class StreamsRules:
    """What an application of Kafka Streams decides."""

    def moves_to_most_caught_up(self) -> bool:
        """Return whether a task goes to the process with the least lag if none is caught up.

        Before KAFKA-13600 it went to any process then, which restored all of it.
        """
        return True

    def rejoins_with_unique_data(self) -> bool:
        """Return whether a thread's user data differs each time it joins.

        Before KAFKA-10455 it did not, and the coordinator answered the probing rebalance of a
        follower with the present generation: its subscription had not changed.
        """
        return True
